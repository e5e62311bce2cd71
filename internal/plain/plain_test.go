package plain_test

import (
	"bytes"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coredns-ddns/ddns/internal/plain"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	text := bytes.Repeat([]byte("0123456789"), 1000)
	for name, b := range map[string][]byte{"file": text, "empty": nil} {
		if err := os.WriteFile(at(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("directory"), 0o700),
		os.Symlink(at("file"), at("link")), os.Symlink("/dev/zero", at("device"))); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, want := range map[string]string{
		"file": "", "link": "", "empty": "",
		"pipe": "not a regular file", "directory": "not a regular file", "device": "not a regular file", "socket": "not a regular file",
		"none": "no such file or directory",
	} {
		got, err := plain.Read(at(name), int64(len(text)))
		var path *fs.PathError
		switch {
		case want != "":
			if !errors.As(err, &path) || path.Path != at(name) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		case err != nil || name != "empty" && !bytes.Equal(got, text) || name == "empty" && len(got) > 0:
			t.Errorf("%s: %d octets, %v", name, len(got), err)
		}
	}
	if _, err := plain.Read(at("file"), int64(len(text)-1)); err == nil || !strings.Contains(err.Error(), "larger than 9999 octets") {
		t.Errorf("a file that is too large: %v", err)
	}
}

// Files of the kernel say that they are empty, and others grow while they are read.
func TestReadOfWhatIsLongerThanItsSize(t *testing.T) {
	b, err := plain.Read("/proc/self/status", 1<<20)
	if err != nil || !bytes.Contains(b, []byte("VmRSS")) {
		t.Errorf("%d octets, %v", len(b), err)
	}
	if _, err := plain.Read("/proc/self/status", 100); err == nil || !strings.Contains(err.Error(), "larger than 100 octets") {
		t.Errorf("%v", err)
	}
}

package bolt_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
)

func child(t *testing.T, kind string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), childEnv+"="+kind)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestKilled kills a process that commits as fast as it can, again and again on
// the same file.
func TestKilled(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	path := filepath.Join(t.TempDir(), "ddns.db")
	for round := range rounds {
		cmd := child(t, "commit", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		var acked store.Position
		kill := time.Duration(rand.IntN(30_000)) * time.Microsecond
		if round%5 == 0 { // also while it is opening
			time.AfterFunc(kill, func() { cmd.Process.Kill() })
		}
		for first := true; lines.Scan(); first = false {
			p, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil {
				t.Fatalf("child says %q", lines.Text())
			}
			acked = store.Position(p)
			if first && round%5 != 0 {
				time.AfterFunc(kill, func() { cmd.Process.Kill() })
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("child ended by itself: %v", err)
		}
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		c, _, err := inspect(s)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if c.State.Last < acked {
			t.Fatalf("round %d: at %d, %d was acknowledged", round, c.State.Last, acked)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if round == rounds-1 {
			t.Logf("%d rounds, at %d", rounds, c.State.Last)
		}
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*.new"))
	if len(left) > 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFailingSystemCalls has each of the first calls that write or sync fail, with
// the work not done, as strace can make it.
func TestFailingSystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is needed to make system calls fail")
		}
		t.Skip("no strace")
	}
	faults := []struct {
		call, errno string
		upto, every int
	}{
		{"fdatasync", "EIO", 40, 3},
		{"pwrite64", "EIO", 60, 7},
		{"pwrite64", "ENOSPC", 60, 11},
		{"ftruncate", "ENOSPC", 2, 1},
		{"fsync", "EIO", 3, 1},
	}
	seen := make(map[string]int)
	for _, f := range faults {
		every := f.every
		if testing.Short() {
			every *= 5
		}
		for n := 1; n <= f.upto; n += every {
			name := fmt.Sprintf("%s %s at call %d", f.call, f.errno, n)
			path := filepath.Join(t.TempDir(), "ddns.db")
			cmd := child(t, "faults")
			cmd.Path, cmd.Args = strace, []string{
				"strace", "-f", "-o", "/dev/null", "-e", "trace=" + f.call,
				"-e", fmt.Sprintf("inject=%s:error=%s:when=%d", f.call, f.errno, n), os.Args[0], path,
			}
			out, err := cmd.Output()
			if err != nil {
				if bytes.Contains(out, []byte("PTRACE")) && os.Getenv("CI") == "" {
					t.Skip("no permission to trace")
				}
				t.Errorf("%s: %v\n%s", name, err, out)
				continue
			}
			if !bytes.HasSuffix(out, []byte("done\n")) {
				t.Errorf("%s: %s", name, out)
			}
			for line := range strings.Lines(string(out)) {
				what, _, _ := strings.Cut(strings.TrimSpace(line), ":")
				seen[what]++
			}
		}
	}
	t.Logf("seen: %v", seen)
	if !testing.Short() && (seen["not persisted"] == 0 || seen["persisted"] == 0) || seen["commit failed"] == 0 {
		t.Error("the faults missed the commits: the test tests nothing")
	}
}

func TestFileSizeLimit(t *testing.T) {
	cmd := child(t, "filesize", filepath.Join(t.TempDir(), "ddns.db"), strconv.Itoa(3<<20))
	out, err := cmd.Output()
	if err != nil || string(out) != "done\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// TestFullDisk fills a small file system, makes room, and goes on.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("ddns-test", dir, "tmpfs", 0, "size=2m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mounting a small file system: %v", err)
		}
		t.Skipf("mounting a small file system: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ddns.db")
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kept := storetest.NewChain("kept.example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{kept.Create(10)}); err != nil {
		t.Fatal(err)
	}
	if err := fill(s); err != nil {
		t.Fatal(err)
	}
	// A restart on the full disk serves what there is.
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = bolt.Open(path, bolt.Options{}); err != nil {
		t.Fatalf("opening on a full disk: %v", err)
	}
	defer s.Close()
	storetest.Verify(t, s, kept)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, kept)
	for i := range 20 {
		if err := s.Commit(t.Context(), []store.ZoneCommit{kept.Commit([]storetest.Change{kept.Set(i, 100)})}); err != nil {
			t.Fatalf("after room was made: %v", err)
		}
	}
	storetest.Verify(t, s, kept)
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDirectoryThatCannotBeWritten must be found out when the database is opened, not
// by the first update.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("ddns-test", dir, "tmpfs", 0, "size=4m"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mounting a file system: %v", err)
		}
		t.Skipf("mounting a file system: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path := filepath.Join(dir, "ddns.db")
	open(t, path).Close()
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(path, bolt.Options{})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "the directory "+dir+" cannot be written") {
		t.Errorf("Open: %v", err)
	}
}

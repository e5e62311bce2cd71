// Package examples_test reads every file of the examples with the program it is
// for, and starts each Corefile.
package examples_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/policy"
)

func TestPoliciesParse(t *testing.T) {
	seen := make(map[string]string) // token hash to file
	files, err := filepath.Glob("*/policy")
	if err != nil || len(files) < 7 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		p, err := policy.ParseFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(p.Tokens()) == 0 {
			t.Errorf("%s: no token", file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for word := range strings.FieldsSeq(string(text)) {
			if !strings.HasPrefix(word, "sha256:") {
				continue
			}
			if other := seen[word]; other != "" {
				t.Errorf("%s: the same hash as in %s", file, other)
			}
			seen[word] = file
		}
	}
}

// An example that brought a secret along would be everybody's secret.
func TestNoSecretsAreCommitted(t *testing.T) {
	tracked, err := exec.CommandContext(t.Context(), "git", "ls-files", ".").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	for file := range strings.FieldsSeq(string(tracked)) {
		switch filepath.Ext(file) {
		case ".key", ".private", ".crt", ".pem", ".db":
			t.Errorf("%s is committed", file)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.Index(string(text), "ddns_"); i >= 0 && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s holds what looks like a token", file)
		}
	}
}

func TestPrepareMakesWhatTheCorefileNames(t *testing.T) {
	need(t, "openssl", "tsig-keygen", "dnssec-keygen")
	want := map[string][]string{
		"home":    {"server.crt", "server.key"},
		"primary": {"transfer.key", "dhcp.key"},
		"dnssec":  {"Kdyn.example.org.key", "Kdyn.example.org.private"},
	}
	for example, made := range want {
		t.Run(example, func(t *testing.T) {
			dir := copied(t, example)
			run(t, dir, "./prepare.sh")
			first := contents(t, dir, made)
			run(t, dir, "./prepare.sh")
			for file, text := range contents(t, dir, made) {
				if text != first[file] {
					t.Errorf("a second prepare.sh made another %s", file)
				}
				info, err := os.Stat(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				if info.Mode().Perm()&0o077 != 0 && filepath.Ext(file) != ".crt" {
					t.Errorf("%s has mode %v: others can read it", file, info.Mode().Perm())
				}
			}
		})
	}
}

func TestSecondariesAcceptTheirConfiguration(t *testing.T) {
	need(t, "tsig-keygen", "named-checkconf", "named-checkzone", "knotc", "nsd-checkconf")
	dir := copied(t, "primary")
	run(t, dir, "./prepare.sh")
	run(t, dir, "named-checkconf", "secondary-bind.conf")
	run(t, dir, "named-checkzone", "dyn.example.org", "dyn.example.org.zone")
	run(t, dir, "knotc", "-c", "secondary-knot.conf", "conf-check")
	run(t, dir, "nsd-checkconf", "secondary-nsd.conf")
}

// copied is an example in a directory of its own, without what earlier runs left.
func copied(t *testing.T, example string) string {
	t.Helper()
	dir := t.TempDir()
	err := filepath.WalkDir(example, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch filepath.Ext(file) {
		case ".key", ".private", ".crt", ".db":
			return nil
		}
		return os.WriteFile(filepath.Join(dir, filepath.Base(file)), text, info.Mode())
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func contents(t *testing.T, dir string, files []string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		all[f] = string(text)
	}
	return all
}

func run(t *testing.T, dir, command string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
	}
}

func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed, and CI is set", p)
		}
		t.Skipf("%s is not installed: make clients", p)
	}
}

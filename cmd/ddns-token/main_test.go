package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/policy"
)

func command(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out, diag bytes.Buffer
	err := run(args, strings.NewReader(stdin), &out, &diag)
	return out.String(), err
}

func TestTokenWorksInThePolicyPrinted(t *testing.T) {
	out, err := command(t, "", "laptop.dyn.example.org")
	if err != nil {
		t.Fatal(err)
	}
	token, block, _ := strings.Cut(out, "\n\n")
	p, err := policy.Parse("policy", []byte(block))
	if err != nil {
		t.Fatalf("the block does not parse: %v\n%s", err, block)
	}
	if _, ok := p.Token(token); !ok {
		t.Errorf("the policy does not know the token printed beside it:\n%s", block)
	}
}

func TestTokenFileIsPrivateAndNeverOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	block, err := command(t, "", "-o", file, "*.dyn.example.org")
	if err != nil {
		t.Fatal(err)
	}
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(block, strings.TrimSpace(string(token))) {
		t.Error("the token itself is in the policy block")
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode().Perm())
	}
	if _, err := command(t, "", "-o", file, "*.dyn.example.org"); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second token into the same file: got %v, want %v", err, os.ErrExist)
	}
	again, _ := os.ReadFile(file)
	if !bytes.Equal(token, again) {
		t.Error("the token of the first run is gone")
	}
	if out, err := command(t, string(token), "-check"); err != nil || !strings.Contains(block, strings.TrimSpace(strings.TrimPrefix(out, "well formed, "))) {
		t.Errorf("-check: got %q, %v, want the hash of the block", out, err)
	}
}

func TestMistakes(t *testing.T) {
	tests := []struct {
		name  string
		stdin string
		args  []string
	}{
		{"no owner", "", nil},
		{"two owners", "", []string{"a.example.org", "b.example.org"}},
		{"an owner that is no name", "", []string{"a..example.org"}},
		{"an unknown flag", "", []string{"-x"}},
		{"a check with an owner", "", []string{"-check", "a.example.org"}},
		{"a check of nothing", "", []string{"-check"}},
		{"a check of a mistyped token", "ddns_abcdefgh_0123456789", []string{"-check"}},
		{"a file in a directory that does not exist", "", []string{"-o", filepath.Join("none", "token"), "a.example.org"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if out, err := command(t, tc.stdin, tc.args...); err == nil || out != "" {
				t.Errorf("got %q, %v, want an error and no output", out, err)
			}
		})
	}
}

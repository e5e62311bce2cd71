package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// scratch is removed when all tests are done.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "coredns-test"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// binaries builds the commands, once for all tests, as "make build" does.
var binaries = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "bin")
	build := exec.Command("go", "build", "-o", dir+"/", "-ldflags",
		"-X github.com/coredns-ddns/ddns/internal/version.tag=v1.2.3", ".", "../ddns-token")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return dir, nil
})

func built(t *testing.T) string {
	t.Helper()
	dir, err := binaries()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBinarySaysWhatItIs(t *testing.T) {
	bin := filepath.Join(built(t), "coredns")
	version := output(t, bin, "-version")
	if !strings.HasPrefix(version, "CoreDNS-1.15.0\n") || !strings.HasSuffix(version, ", ddns-1.2.3\n") {
		t.Errorf("-version printed %q, want CoreDNS-1.15.0 first and ddns-1.2.3 last", version)
	}
	plugins := strings.Fields(output(t, bin, "-plugins"))
	for _, name := range []string{"ddns", "dynupdate", "transfer", "tsig", "dnssec"} {
		if !slices.Contains(plugins, name) {
			t.Errorf("-plugins does not list %s: %v", name, plugins)
		}
	}
}

// TestPluginCfg builds CoreDNS the ordinary way, from its own source with one
// line in plugin.cfg. The plugins of the clouds take minutes and are compiled
// only by "make test-long".
func TestPluginCfg(t *testing.T) {
	source, bin := filepath.Join(t.TempDir(), "coredns"), filepath.Join(t.TempDir(), "coredns")
	args := []string{"--keep", source, bin}
	if os.Getenv("DDNS_TEST_LONG") == "" {
		args = append([]string{"--without-cloud"}, args...)
	}
	output(t, "../../scripts/build-with-plugin-cfg.sh", args...)

	order, err := os.ReadFile(filepath.Join(source, "core", "dnsserver", "zdirectives.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(order), "\t\"dynupdate\",\n\t\"ddns\",\n\t\"hosts\",\n") {
		t.Errorf("ddns does not stand between dynupdate and hosts:\n%s", order)
	}
	if plugins := strings.Fields(output(t, bin, "-plugins")); !slices.Contains(plugins, "ddns") {
		t.Errorf("-plugins does not list ddns: %v", plugins)
	}
}

// need is for a program of another project: without it the test is skipped, but
// not where everything was installed.
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

// output runs a command that must succeed.
func output(t *testing.T, command string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, command, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", command, strings.Join(args, " "), err, out)
	}
	return string(out)
}

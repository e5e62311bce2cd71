//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The users of the hook tests. Run as root, coredns is nobody, the hooks run as
// daemon, and www-data is the one who should not be there. Otherwise all of them
// are who runs the test.
const (
	serverUser   = "nobody"
	hookUser     = "daemon"
	strangerUser = "www-data"
)

// privileged reports whether processes can be given users of their own.
func privileged() bool { return os.Getuid() == 0 }

func needPrivilege(t testing.TB) {
	t.Helper()
	if !privileged() {
		if os.Getenv("CI") != "" {
			t.Fatal("CI must run this as root")
		}
		t.Skip("only root can start processes of several users")
	}
}

// hooking is a coredns with the commands of its hooks, and maybe a ddns-hookd.
type hooking struct {
	*process
	base  string // readable by all of its users
	out   string // where hooks write
	hookd *hookd
}

// prepareHooks makes the directories and starts nothing.
func prepareHooks(t testing.TB) *hooking {
	t.Helper()
	base, err := os.MkdirTemp("", "ddns-hooks-") // above t.TempDir is one that is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	h := &hooking{process: prepare(t), base: base, out: filepath.Join(base, "out")}
	for dir, mode := range map[string]os.FileMode{base: 0o755, base + "/server": 0o755, base + "/hookd": 0o755, base + "/bin": 0o755, h.out: 0o777, filepath.Dir(binary): 0o755} {
		if err := os.MkdirAll(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"policy", "Corefile"} {
		text, err := os.ReadFile(filepath.Join(h.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		h.place("server/"+name, string(text), 0o644)
	}
	h.dir = filepath.Join(base, "server")
	if privileged() {
		h.chown(h.dir, serverUser)
	}
	return h
}

func (h *hooking) chown(path, name string) {
	h.t.Helper()
	if err := os.Chown(path, id(h.t, name), -1); err != nil {
		h.t.Fatal(err)
	}
}

func id(t testing.TB, name string) int {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// place writes a file below base, renamed into place, and returns its path.
func (h *hooking) place(name, text string, mode os.FileMode) string {
	h.t.Helper()
	path := filepath.Join(h.base, name)
	if err := os.WriteFile(path+".new", []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path+".new", mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// script makes a command of a hook. OUT in its text is the directory to write to.
func (h *hooking) script(name, text string) string {
	h.t.Helper()
	return h.place("bin/"+name, "#!/bin/sh\nset -eu\n"+strings.ReplaceAll(text, "OUT", h.out), 0o755)
}

// definition is the block of a hook that runs a script as the user of hooks.
func (h *hooking) definition(name, command string, lines ...string) string {
	if privileged() {
		lines = append(lines, "user "+hookUser)
	}
	return fmt.Sprintf("hook %s {\n    command %s\n    %s\n}\n", name, command, strings.Join(lines, "\n    "))
}

// define gives the hooks to coredns, and to a ddns-hookd that is started later.
func (h *hooking) define(blocks ...string) {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "policy"))
	if err != nil {
		h.t.Fatal(err)
	}
	credentials, _, _ := strings.Cut(string(text), "hook ")
	hooks := strings.Join(blocks, "")
	h.place("server/policy", credentials+hooks, 0o644)
	h.place("hookd/policy", hooks, 0o600)
}

func (h *hooking) configure(block, stanza string) {
	h.t.Helper()
	h.place("server/Corefile", h.corefile(block, stanza), 0o644)
}

// boot starts coredns, without any privilege when there are users to choose from.
func (h *hooking) boot() {
	h.t.Helper()
	h.start(as(serverUser)...)
}

// startPrivileged starts coredns as who runs the tests, to become the users of hooks. Root
// takes hooks only from files that are its own.
func (h *hooking) startPrivileged() {
	h.t.Helper()
	if privileged() {
		h.chown(h.dir, "root")
	}
	h.start()
}

// as is what a command line begins with to run as a user, with nothing that root
// has.
func as(name string) []string {
	if !privileged() {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		panic(err)
	}
	return []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"}
}

// hookd is a running ddns-hookd.
type hookd struct {
	t     testing.TB
	cmd   *exec.Cmd
	log   *logBuffer
	ended chan error
}

// hookdBinary builds ddns-hookd beside coredns, once.
var hookdBinary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "ddns-hookd")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "../cmd/ddns-hookd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %v\n%s", err, out)
	}
	return path, nil
})

func (h *hooking) socket() string { return filepath.Join(h.base, "hookd", "hookd.sock") }

// startHookd starts ddns-hookd for coredns and waits until it listens. Further
// arguments are flags.
func (h *hooking) startHookd(flags ...string) {
	h.t.Helper()
	h.startHookdUnder(nil, flags...)
}

func (h *hooking) startHookdUnder(prefix []string, flags ...string) {
	h.t.Helper()
	path, err := hookdBinary()
	if err != nil {
		h.t.Fatal(err)
	}
	args := append(append([]string{}, prefix...), path, "-policy", filepath.Join(h.base, "hookd", "policy"), "-listen", "unix://"+h.socket())
	if privileged() {
		args = append(args, "-allow-uid", serverUser)
	}
	args = append(args, flags...)
	d := &hookd{t: h.t, cmd: exec.Command(args[0], args[1:]...), log: &logBuffer{grew: make(chan struct{}, 1)}, ended: make(chan error, 1)}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait(); close(d.ended) }()
	h.t.Cleanup(func() { _ = d.cmd.Process.Kill(); <-d.ended })
	if !d.log.await("listening on", 1, 20*time.Second) {
		h.t.Fatalf("ddns-hookd does not listen:\n%s", d.log)
	}
	h.hookd = d
}

func (d *hookd) kill() {
	d.t.Helper()
	if err := d.cmd.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	<-d.ended
}

// listing is what GET /hooks tells.
type listing struct {
	Hooks []struct {
		Hook                   string
		Pending, Running, Dead int
		Events                 []struct {
			ID, FQDN, State, Error string
			Attempt                int
		}
		Last []struct {
			ID, Event, FQDN, Result, Error string
			Attempt                        int
		}
	}
}

func (h *hooking) listing() (l listing) {
	h.t.Helper()
	if status := h.json("GET", "/hooks", &l); status != http.StatusOK {
		h.t.Fatalf("GET /hooks: status %d", status)
	}
	return l
}

// json makes a request whose answer is JSON, and returns the status.
func (h *hooking) json(method, path string, v any) int {
	h.t.Helper()
	req, err := http.NewRequest(method, "http://"+h.http+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	resp, err := fresh.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		h.t.Fatalf("%s %s: %v\n%s", method, path, err, text)
	}
	return resp.StatusCode
}

// read is what hooks wrote to a file so far.
func (h *hooking) read(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.out, name))
	return string(text)
}

// until waits for what another process brings about.
func (h *hooking) until(what string, limit time.Duration, ok func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			said := ""
			if h.hookd != nil {
				said = "\nddns-hookd:\n" + tail(h.hookd.log.String())
			}
			h.t.Fatalf("waited %v for %s\ncoredns:\n%s%s", limit, what, tail(h.log.String()), said)
		}
	}
}

// hookTool finds a program that the tests run, also in bin/tools. Without it the
// test is skipped, except in CI.
func hookTool(t testing.TB, name string) string {
	t.Helper()
	for _, path := range []string{"../bin/tools/" + name, name, "/usr/sbin/" + name, "/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			if found, err = filepath.Abs(found); err == nil {
				return found
			}
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is not installed, and CI is set", name)
	}
	t.Skipf("%s is not installed: make clients", name)
	return ""
}

// processes lists those whose command line has a text.
func processes(text string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		line, _ := os.ReadFile(d + "/cmdline")
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && pid != os.Getpid() && strings.Contains(string(line), text) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// endProcesses ends what a failed test may have left.
func endProcesses(text string) {
	for _, pid := range processes(text) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

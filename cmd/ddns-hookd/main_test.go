//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/hooks"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// Called with HOOKD_MAIN the test binary is ddns-hookd itself.
func TestMain(m *testing.M) {
	if os.Getenv("HOOKD_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A process is a running ddns-hookd.
type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu  sync.Mutex
	log []string // guarded by mu
	eof chan struct{}
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("/proc/self/exe", args...), eof: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "HOOKD_MAIN=1")
	out, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.eof
		p.cmd.Wait()
	})
	go func() {
		defer close(p.eof)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.log = append(p.log, s.Text())
			p.mu.Unlock()
		}
	}()
	return p
}

// said waits for a line of the log.
func (p *process) said(what string) {
	p.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		p.mu.Lock()
		text := strings.Join(p.log, "\n")
		p.mu.Unlock()
		if strings.Contains(text, what) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("never said %q, but:\n%s", what, text)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func rootWord() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return ""
}

func policyText(name, command string) string {
	return fmt.Sprintf("hook %s {\n\tcommand /bin/sh -c %q\n\t%s\n}\n", name, command, rootWord())
}

// files makes a directory with a policy, and the path of a socket in it.
func files(t *testing.T, text string) (policy, socket string) {
	t.Helper()
	dir := t.TempDir()
	policy = filepath.Join(dir, "policy")
	write(t, policy, text)
	return policy, filepath.Join(dir, "hookd.sock")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, socket string) *hooks.Remote {
	t.Helper()
	r, err := hooks.Dial("unix://"+socket, hooks.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestRunReloadStop(t *testing.T) {
	policy, socket := files(t, policyText("greet", "echo hello"))
	p := start(t, "-policy", policy, "-listen", "unix://"+socket)
	p.said("listening on")
	c := dial(t, socket)
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	ask := func(name string) (*hooksv1.ExecuteHookResponse, error) {
		return c.Execute(t.Context(), &hooksv1.Hook{Name: name, Env: map[string]string{"DDNS_EVENT_ID": "e1"}})
	}
	if resp, err := ask("greet"); err != nil || resp.GetOutput() != "hello\n" {
		t.Errorf("got %v, %v", resp, err)
	}
	p.said(`hook="greet" name="" event="e1" peer=uid:`)

	write(t, policy, "hook greet {\n\tcommand relative\n}\n")
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.said("keeping the old policy")
	if resp, err := ask("greet"); err != nil || resp.GetOutput() != "hello\n" {
		t.Errorf("with a broken policy: got %v, %v", resp, err)
	}

	write(t, policy, policyText("greet", "echo goodbye")+policyText("more", "true"))
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.said("2 hooks are defined; added more; removed none; changed greet")
	p.said("policy read again")
	if resp, err := ask("greet"); err != nil || resp.GetOutput() != "goodbye\n" {
		t.Errorf("with a new policy: got %v, %v", resp, err)
	}

	if os.Geteuid() == 0 {
		os.Chmod(policy, 0o666)
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.said("can be written by others")
		os.Chmod(policy, 0o600)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.eof
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// running lists the processes that have the token in their environment.
func running(token string) (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if b, _ := os.ReadFile(d + "/environ"); bytes.Contains(b, []byte(token)) {
			pids = append(pids, d)
		}
	}
	return pids
}

// Killed without warning, it leaves a hook that started others; the next one takes
// over the socket, ends what was left, and runs the event again.
func TestKilledAndStartedAgain(t *testing.T) {
	policy, socket := files(t, policyText("slow", "setsid sleep 100 & sleep 100")+policyText("quick", "echo fine"))
	args := []string{"-policy", policy, "-listen", "unix://" + socket}
	p := start(t, args...)
	p.said("listening on")
	c := dial(t, socket)
	token := "tok" + strconv.FormatInt(time.Now().UnixNano(), 10)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Execute(t.Context(), &hooksv1.Hook{Name: "slow", Env: map[string]string{"DDNS_EVENT_ID": token}})
		failed <- err
	}()
	wait(t, "starting the hook", func() bool { return len(running(token)) >= 3 })
	p.cmd.Process.Kill()
	if err := <-failed; status.Code(err) != codes.Unavailable {
		t.Errorf("the call that was cut off: got %v, want Unavailable, which is tried again", err)
	}
	next := start(t, args...)
	next.said("listening on")
	wait(t, "answering again", func() bool {
		resp, err := c.Execute(t.Context(), &hooksv1.Hook{Name: "quick"})
		return err == nil && resp.GetOutput() == "fine\n"
	})
	// Without control groups only the command itself is sure to die with ddns-hookd.
	r := hooks.NewRunner(hooks.RunnerOptions{})
	t.Cleanup(func() { r.Close(context.Background()) })
	most := 0
	if r.Guarantees().Tree != "" {
		most = 1
	}
	wait(t, "ending what was left", func() bool { return len(running(token)) <= most })
	for _, d := range running(token) {
		pid, _ := strconv.Atoi(filepath.Base(d))
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestSecondOneIsRefused(t *testing.T) {
	policy, socket := files(t, "")
	p := start(t, "-policy", policy, "-listen", "unix://"+socket)
	p.said("listening on")
	q := start(t, "-policy", policy, "-listen", "unix://"+socket)
	q.said("another process is serving it")
	<-q.eof
	if err := q.cmd.Wait(); err == nil {
		t.Error("the second one ended with success")
	}
}

func TestSocketPassedBySystemd(t *testing.T) {
	policy, socket := files(t, policyText("greet", "echo hello; ls /proc/self/fd | wc -l"))
	l, err := hooks.ListenUnix(socket, hooks.UnixOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// LISTEN_PID is known only in the process itself: a shell sets it and becomes it.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 HOOKD_MAIN=1 exec "$0" -policy "$1"`, "/proc/"+strconv.Itoa(os.Getpid())+"/exe", policy)
	cmd.ExtraFiles = []*os.File{f}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if _, err := os.Stat(socket); err != nil {
			t.Errorf("the socket is systemd's, and went: %v", err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	resp, err := dial(t, socket).Execute(ctx, &hooksv1.Hook{Name: "greet"})
	if err != nil || resp.GetOutput() != "hello\n4\n" { // 0, 1, 2 and the directory itself
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestFlags(t *testing.T) {
	good, _ := files(t, policyText("greet", "echo hello"))
	broken, _ := files(t, "hook greet {\n\tcommand relative\n}\n")
	cannot, _ := files(t, "hook greet {\n\tcommand /nonexistent\n\t"+rootWord()+"\n}\n")
	for _, c := range []struct {
		name string
		args []string
		want int
		says string
	}{
		{"the version", []string{"-version"}, 0, "ddns-hookd "},
		{"help", []string{"-help"}, 0, "usage: ddns-hookd"},
		{"nothing", nil, 2, "-policy is needed"},
		{"an unknown flag", []string{"-nosuch"}, 2, "nosuch"},
		{"an argument", []string{"-policy", good, "x"}, 2, `unexpected argument "x"`},
		{"TCP without TLS", []string{"-policy", good, "-listen", "127.0.0.1:0"}, 2, "needs mutual TLS"},
		{"half of TLS", []string{"-policy", good, "-tls-cert", "x"}, 2, "go together"},
		{"a relative socket", []string{"-policy", good, "-listen", "unix://x"}, 2, "absolute"},
		{"-any-root alone", []string{"-policy", good, "-any-root"}, 2, "-any-root needs -any"},
		{"a bad mode", []string{"-policy", good, "-socket-mode", "999"}, 2, "octal"},
		{"an unknown user", []string{"-policy", good, "-allow-uid", "no-such-user"}, 2, "no-such-user"},
		{"-parallel 0", []string{"-policy", good, "-parallel", "0"}, 2, "-parallel"},
		{"-check of a good policy", []string{"-policy", good, "-check"}, 0, "1 hooks, each can run"},
		{"-check of a broken policy", []string{"-policy", broken, "-check"}, 1, ":2:"},
		{"-check of a hook that cannot run", []string{"-policy", cannot, "-check"}, 1, "the hook greet cannot run: the command /nonexistent"},
		{"-check of a missing policy", []string{"-policy", "/nonexistent", "-check"}, 1, "/nonexistent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, diag bytes.Buffer
			got := run(c.args, &out, &diag)
			if said := out.String() + diag.String(); got != c.want || !strings.Contains(said, c.says) {
				t.Errorf("got %d and %q, want %d and %q", got, said, c.want, c.says)
			}
		})
	}
}

//go:build linux

package hooks_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

func parsePolicy(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("test-policy", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// testPolicy defines hooks that run as the user of the test.
func testPolicy(t *testing.T) *policy.Policy {
	t.Helper()
	root := ""
	if os.Geteuid() == 0 {
		root = "root"
	}
	return parsePolicy(t, fmt.Sprintf(`
hook show {
	command /bin/sh -c "env | grep -v ^PWD= | sort; pwd; exit 0"
	cwd /etc
	timeout 5s
	env MODE fast
	allow_env COLOUR
	%[1]s
}
hook fail {
	command /bin/sh -c "echo broken; exit 75"
	%[1]s
}
hook slow {
	command /bin/sh -c "trap '' TERM; sleep 100; sleep 100"
	timeout 1s
	%[1]s
}
hook one {
	command /bin/sleep 0.2
	%[1]s
}
hook as-root {
	command /bin/true
	user root
	root
}
`, root))
}

// serve starts a Server for l and returns it with a client.
func serveUnix(t *testing.T, sc hooks.ServerConfig) (*hooks.Server, string) {
	t.Helper()
	path := filepath.Join(reachable(t), "hooks.sock")
	l, err := hooks.ListenUnix(path, hooks.UnixOptions{Mode: 0o666})
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, sc), path
}

func serveOn(t *testing.T, l net.Listener, sc hooks.ServerConfig) *hooks.Server {
	t.Helper()
	s, err := hooks.NewServer(sc)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ctx)
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

func dial(t *testing.T, target string, o hooks.DialOptions) *hooks.Remote {
	t.Helper()
	r, err := hooks.Dial(target, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func local(t *testing.T, c hooks.LocalConfig) *hooks.Local {
	t.Helper()
	if c.Runner == nil {
		c.Runner = newRunner(t, hooks.RunnerOptions{Grace: 100 * time.Millisecond})
	}
	return hooks.NewLocal(c)
}

// Both Executors must give the same answers: one in process, one behind a socket.
func executors(t *testing.T, c hooks.LocalConfig, f func(t *testing.T, e hooks.Executor)) {
	t.Helper()
	l := local(t, c)
	t.Run("local", func(t *testing.T) { f(t, l) })
	t.Run("remote", func(t *testing.T) {
		_, path := serveUnix(t, hooks.ServerConfig{Executor: l})
		f(t, dial(t, "unix://"+path, hooks.DialOptions{}))
	})
}

func TestExecuteRunsWhatIsDefined(t *testing.T) {
	executors(t, hooks.LocalConfig{Policy: testPolicy(t)}, func(t *testing.T, e hooks.Executor) {
		resp, err := e.Execute(t.Context(), &hooksv1.Hook{Name: "show", Env: map[string]string{
			"DDNS_FQDN": "a.example.", "COLOUR": "red", "MODE": "fast", "DDNS_NEW": "192.0.2.1 $(id)",
		}})
		if err != nil || resp.GetError() != "" || !resp.GetStarted() || resp.GetExitCode() != 0 {
			t.Fatalf("got %v, %v", resp, err)
		}
		for _, want := range []string{"COLOUR=red\n", "DDNS_FQDN=a.example.\n", "DDNS_HOOK=show\n", "MODE=fast\n", "DDNS_NEW=192.0.2.1 $(id)\n", "LANG=C.UTF-8\n", "\n/etc\n"} {
			if !strings.Contains(resp.GetOutput(), want) {
				t.Errorf("output %q has no %q", resp.GetOutput(), want)
			}
		}
		resp, err = e.Execute(t.Context(), &hooksv1.Hook{Name: "fail"})
		if err != nil || resp.GetError() != "exit status 75: broken" || resp.GetExitCode() != 75 || resp.GetOutput() != "broken\n" {
			t.Errorf("fail: got %v, %v", resp, err)
		}
		began := time.Now()
		resp, err = e.Execute(t.Context(), &hooksv1.Hook{Name: "slow", TimeoutSeconds: 2000000000})
		if err != nil || !resp.GetTimedOut() || !resp.GetKilled() || resp.GetSignal() != 9 || resp.GetError() != "timed out after 1s" ||
			time.Since(began) > 5*time.Second {
			t.Errorf("slow: got %v, %v after %v", resp, err, time.Since(began))
		}
	})
}

func TestExecuteRefuses(t *testing.T) {
	huge := strings.Repeat("x", 300<<10)
	executors(t, hooks.LocalConfig{Policy: testPolicy(t)}, func(t *testing.T, e hooks.Executor) {
		for _, c := range []struct {
			name string
			hook *hooksv1.Hook
			want codes.Code
		}{
			{"no hook", nil, codes.InvalidArgument},
			{"an empty name", &hooksv1.Hook{}, codes.InvalidArgument},
			{"a name with a slash", &hooksv1.Hook{Name: "../show"}, codes.InvalidArgument},
			{"a name with NUL", &hooksv1.Hook{Name: "show\x00"}, codes.InvalidArgument},
			{"a name that is too long", &hooksv1.Hook{Name: strings.Repeat("a", 65)}, codes.InvalidArgument},
			{"a name that is not defined", &hooksv1.Hook{Name: "other"}, codes.NotFound},
			{"a command for a name that is not defined", &hooksv1.Hook{Name: "other", Command: []string{"/bin/true"}, User: "nobody"}, codes.NotFound},
			{"another command", &hooksv1.Hook{Name: "fail", Command: []string{"/bin/true"}}, codes.PermissionDenied},
			{"one more argument", &hooksv1.Hook{Name: "one", Command: []string{"/bin/sleep", "0.2", "0"}}, codes.PermissionDenied},
			{"a relative command", &hooksv1.Hook{Name: "one", Command: []string{"sleep", "0.2"}}, codes.InvalidArgument},
			{"an empty command", &hooksv1.Hook{Name: "one", Command: []string{""}}, codes.InvalidArgument},
			{"another user", &hooksv1.Hook{Name: "one", User: "daemon"}, codes.PermissionDenied},
			{"another user by number", &hooksv1.Hook{Name: "as-root", User: "0"}, codes.PermissionDenied},
			{"a user that is no name", &hooksv1.Hook{Name: "one", User: "a b"}, codes.InvalidArgument},
			{"another group", &hooksv1.Hook{Name: "one", Group: "daemon"}, codes.PermissionDenied},
			{"another cwd", &hooksv1.Hook{Name: "show", Cwd: "/"}, codes.PermissionDenied},
			{"a cwd with ..", &hooksv1.Hook{Name: "show", Cwd: "/etc/../etc"}, codes.InvalidArgument},
			{"a negative time limit", &hooksv1.Hook{Name: "show", TimeoutSeconds: -1}, codes.InvalidArgument},
			{"a variable that is not allowed", &hooksv1.Hook{Name: "show", Env: map[string]string{"FOO": "x"}}, codes.PermissionDenied},
			{"a variable of the definition with another value", &hooksv1.Hook{Name: "show", Env: map[string]string{"MODE": "slow"}}, codes.PermissionDenied},
			{"LD_PRELOAD", &hooksv1.Hook{Name: "show", Env: map[string]string{"LD_PRELOAD": "/tmp/x.so"}}, codes.InvalidArgument},
			{"HOME", &hooksv1.Hook{Name: "show", Env: map[string]string{"HOME": "/tmp"}}, codes.PermissionDenied},
			{"the event of another hook", &hooksv1.Hook{Name: "show", Env: map[string]string{"DDNS_HOOK": "fail"}}, codes.InvalidArgument},
			{"a value with NUL", &hooksv1.Hook{Name: "show", Env: map[string]string{"DDNS_NEW": "x\x00"}}, codes.InvalidArgument},
		} {
			t.Run(c.name, func(t *testing.T) {
				resp, err := e.Execute(t.Context(), c.hook)
				if got := status.Code(err); got != c.want {
					t.Errorf("got %v (%v, %v), want %v", got, resp, err, c.want)
				}
			})
		}
		t.Run("a message that is too large", func(t *testing.T) {
			_, err := e.Execute(t.Context(), &hooksv1.Hook{Name: "show", Env: map[string]string{"DDNS_NEW": huge}})
			if got := status.Code(err); got != codes.ResourceExhausted && got != codes.InvalidArgument {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestAnyIsAWordOfItsOwn(t *testing.T) {
	needRoot(t)
	ask := func(user string) *hooksv1.Hook {
		return &hooksv1.Hook{Name: "free", Command: []string{"/bin/sh", "-c", "id -un; pwd"}, User: user, Cwd: "/etc", TimeoutSeconds: 5}
	}
	for _, c := range []struct {
		name string
		c    hooks.LocalConfig
		hook *hooksv1.Hook
		code codes.Code
		out  string
	}{
		{"without it nothing runs", hooks.LocalConfig{}, ask("nobody"), codes.NotFound, ""},
		{"with it a request runs as it says", hooks.LocalConfig{Any: true}, ask("nobody"), codes.OK, "nobody\n/etc\n"},
		{"but not as root", hooks.LocalConfig{Any: true}, ask("root"), codes.PermissionDenied, ""},
		{"unless that is said too", hooks.LocalConfig{Any: true, AnyRoot: true}, ask("root"), codes.OK, "root\n/etc\n"},
		{"a user is needed", hooks.LocalConfig{Any: true, AnyRoot: true}, ask(""), codes.InvalidArgument, ""},
		{"a definition stays what it is", hooks.LocalConfig{Any: true, Policy: testPolicy(t)}, &hooksv1.Hook{Name: "fail", Command: []string{"/bin/true"}, User: "nobody"}, codes.PermissionDenied, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, err := local(t, c.c).Execute(t.Context(), c.hook)
			if status.Code(err) != c.code || resp.GetOutput() != c.out || resp.GetError() != "" {
				t.Errorf("got %v, %v; want %v and %q", resp, err, c.code, c.out)
			}
		})
	}
}

func TestDeadlineOfTheCallerIsHonoured(t *testing.T) {
	p := parsePolicy(t, `
hook slow {
	command /bin/sh -c "trap '' TERM; sleep 100; sleep 100"
	timeout 60s
	`+map[bool]string{true: "root", false: ""}[os.Geteuid() == 0]+`
}`)
	l := local(t, hooks.LocalConfig{Policy: p})
	_, path := serveUnix(t, hooks.ServerConfig{Executor: l})
	c := dial(t, "unix://"+path, hooks.DialOptions{})
	token := fmt.Sprintf("tok%d", time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Execute(ctx, &hooksv1.Hook{Name: "slow", Env: map[string]string{"DDNS_EVENT_ID": token}})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	eventually(t, "ending the hook", func() bool { return len(withToken(token)) == 0 })
}

func TestSameNameNeverRunsTwiceAtOnce(t *testing.T) {
	dir := reachable(t)
	p := parsePolicy(t, fmt.Sprintf(`
hook alone {
	command /bin/sh -c "mkdir %[1]s/lock && sleep 0.1 && rmdir %[1]s/lock"
	%[2]s
}
hook together {
	command /bin/sh -c "touch %[1]s/$DDNS_FQDN; until [ -e %[1]s/a -a -e %[1]s/b -a -e %[1]s/c ]; do sleep 0.01; done"
	timeout 10s
	%[2]s
}`, dir, map[bool]string{true: "root"}[os.Geteuid() == 0]))
	l := local(t, hooks.LocalConfig{Policy: p})
	for hook, names := range map[string][3]string{"alone": {"a", "a", "a"}, "together": {"a", "b", "c"}} {
		var wg sync.WaitGroup
		for _, name := range names {
			wg.Go(func() {
				resp, err := l.Execute(t.Context(), &hooksv1.Hook{Name: hook, Env: map[string]string{"DDNS_FQDN": name}})
				if err != nil || resp.GetError() != "" {
					t.Errorf("%s: got %v, %v", hook, resp, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestBusyIsResourceExhausted(t *testing.T) {
	l := local(t, hooks.LocalConfig{Policy: testPolicy(t), Runner: newRunner(t, hooks.RunnerOptions{Parallel: 1, Queue: 20 * time.Millisecond, Grace: 100 * time.Millisecond})})
	first := make(chan error, 1)
	token := fmt.Sprintf("tok%d", time.Now().UnixNano())
	go func() {
		_, err := l.Execute(t.Context(), &hooksv1.Hook{Name: "slow", TimeoutSeconds: 1, Env: map[string]string{"DDNS_EVENT_ID": token}})
		first <- err
	}()
	eventually(t, "starting the hook", func() bool { return len(withToken(token)) > 0 })
	if resp, err := l.Execute(t.Context(), &hooksv1.Hook{Name: "fail"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, %v", resp, err)
	}
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestStopEndsWhatRuns(t *testing.T) {
	l := local(t, hooks.LocalConfig{Policy: testPolicy(t)})
	path := filepath.Join(reachable(t), "hooks.sock")
	ln, err := hooks.ListenUnix(path, hooks.UnixOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := hooks.NewServer(hooks.ServerConfig{Executor: l})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := dial(t, "unix://"+path, hooks.DialOptions{})
	token := fmt.Sprintf("tok%d", time.Now().UnixNano())
	done := make(chan error, 1)
	go func() {
		_, err := c.Execute(t.Context(), &hooksv1.Hook{Name: "slow", Env: map[string]string{"DDNS_EVENT_ID": token}})
		done <- err
	}()
	eventually(t, "starting the hook", func() bool { return len(withToken(token)) > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s.Stop(ctx)
	if left := withToken(token); len(left) > 0 {
		t.Errorf("after Stop there are %v", left)
	}
	if err := <-done; err == nil {
		t.Error("the call that was cut off succeeded")
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestConfigureSwapsBehindAnOpenConnection(t *testing.T) {
	l := local(t, hooks.LocalConfig{Policy: testPolicy(t)})
	runner := newRunner(t, hooks.RunnerOptions{})
	s, path := serveUnix(t, hooks.ServerConfig{Executor: l})
	c := dial(t, "unix://"+path, hooks.DialOptions{})
	if _, err := c.Execute(t.Context(), &hooksv1.Hook{Name: "fail"}); err != nil {
		t.Fatal(err)
	}
	l.Configure(hooks.LocalConfig{Policy: parsePolicy(t, ""), Runner: runner})
	if _, err := c.Execute(t.Context(), &hooksv1.Hook{Name: "fail"}); status.Code(err) != codes.NotFound {
		t.Errorf("after the hook was removed: got %v", err)
	}
	var lines []string
	if err := s.Configure(hooks.ServerConfig{Executor: local(t, hooks.LocalConfig{Policy: testPolicy(t)}), Log: func(l string) { lines = append(lines, l) }}); err != nil {
		t.Fatal(err)
	}
	resp, err := c.Execute(t.Context(), &hooksv1.Hook{Name: "fail", Env: map[string]string{"DDNS_EVENT_ID": "01\nX", "DDNS_NEW": "secret"}})
	if err != nil || resp.GetError() != "exit status 75: broken" {
		t.Errorf("with another executor: got %v, %v", resp, err)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], `event="01\nX"`) || !strings.Contains(lines[0], "result=failed") ||
		strings.Contains(lines[0], "secret") || strings.Contains(lines[0], "\n") {
		t.Errorf("log: %q", lines)
	}
	if err := s.Configure(hooks.ServerConfig{}); err == nil {
		t.Error("a configuration without an executor was taken")
	}
}

func TestSocketIsTakenOverOnlyFromTheDead(t *testing.T) {
	path := filepath.Join(reachable(t), "hooks.sock")
	first, err := hooks.ListenUnix(path, hooks.UnixOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Lstat(path)
	if err != nil || fi.Mode() != os.ModeSocket|0o600 {
		t.Errorf("mode: got %v, %v", fi.Mode(), err)
	}
	if _, err := hooks.ListenUnix(path, hooks.UnixOptions{}); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("beside a living one: got %v", err)
	}
	// As a kill leaves it: the socket stays, the lock goes.
	stale := path + ".stale"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	second, err := hooks.ListenUnix(stale, hooks.UnixOptions{})
	if err != nil {
		t.Errorf("over a dead one: %v", err)
	} else {
		second.Close()
	}
	first.Close()
	plain := path + ".plain"
	writeFile(t, plain, "precious", 0o600)
	for _, bad := range []string{"@abstract", "relative.sock", "/run/../run/x.sock", plain, "/nonexistent/dir/x.sock"} {
		if l, err := hooks.ListenUnix(bad, hooks.UnixOptions{}); err == nil {
			l.Close()
			t.Errorf("%s: was taken", bad)
		}
	}
}

func TestDialRefusesWhatCannotBeSafe(t *testing.T) {
	for _, target := range []string{"127.0.0.1:1", "unix:relative", "unix://relative", "dns:///x:1", "", "host", "unix-abstract:x"} {
		if r, err := hooks.Dial(target, hooks.DialOptions{}); err == nil {
			r.Close()
			t.Errorf("%q: was taken", target)
		}
	}
	r := dial(t, "unix:///nonexistent/hooks.sock", hooks.DialOptions{})
	if _, err := r.Execute(t.Context(), &hooksv1.Hook{Name: "x"}); status.Code(err) != codes.Unavailable {
		t.Errorf("nobody there: got %v", err)
	}
}

func TestGuaranteesAreSentences(t *testing.T) {
	r := newRunner(t, hooks.RunnerOptions{ProcessGroups: true})
	g := r.Guarantees()
	if !strings.Contains(g.Tree, "not in a control group") || !slices.Contains(g.Missing(), g.Tree) || !strings.HasPrefix(g.String(), "hooks run degraded: ") {
		t.Errorf("got %+v", g)
	}
}

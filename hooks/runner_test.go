//go:build linux

package hooks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/hooks"
)

// runners are the two ways of keeping a tree together; both must keep every
// promise that their Guarantees make.
func runners(t *testing.T, f func(t *testing.T, r *hooks.Runner)) {
	t.Helper()
	for _, c := range []struct {
		name   string
		groups bool
	}{{"control group", false}, {"process group", true}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRunner(t, hooks.RunnerOptions{Grace: 200 * time.Millisecond, ProcessGroups: c.groups})
			if g := r.Guarantees(); !c.groups && g.Tree != "" {
				if os.Getenv("CI") == "" || os.Geteuid() != 0 {
					t.Skip(g.Tree)
				}
				t.Log(g.Tree) // CI machines without control groups test the fallback twice
			}
			f(t, r)
		})
	}
}

func newRunner(t *testing.T, o hooks.RunnerOptions) *hooks.Runner {
	t.Helper()
	r := hooks.NewRunner(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return r
}

func ownSpec(command ...string) hooks.Spec {
	return hooks.Spec{Hook: "test", Command: command, Root: os.Geteuid() == 0, Timeout: 10 * time.Second}
}

func selfReportOf(t *testing.T, o hooks.Outcome) selfReport {
	t.Helper()
	if s := o.Sentence(); s != "" {
		t.Fatalf("the child failed: %s", s)
	}
	var r selfReport
	if err := json.Unmarshal([]byte(o.Output), &r); err != nil {
		t.Fatalf("reading the report: %v in %q", err, o.Output)
	}
	return r
}

func TestChildReportsItself(t *testing.T) {
	needRoot(t)
	bin := helper(t)
	// A descriptor that a careless host has open and inheritable.
	leak, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, leak.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno)
	}
	t.Setenv("SECRET_OF_THE_HOST", "x")
	defer syscall.Umask(syscall.Umask(0))

	runners(t, func(t *testing.T, r *hooks.Runner) {
		for _, name := range []string{"nobody", "daemon", "www-data"} {
			u, err := user.Lookup(name)
			if err != nil {
				t.Logf("no user %s here", name)
				continue
			}
			t.Run(name, func(t *testing.T) {
				o := r.Run(t.Context(), hooks.Spec{
					Hook: "test", Command: []string{bin, "hook-helper", "report", "a b", "$HOME", ""}, User: name, Cwd: "/etc",
					Env: map[string]string{"DDNS_FQDN": "a.example.", "MODE": "a=b\nc"},
				})
				got := selfReportOf(t, o)
				checkIdentity(t, got, u)
				want := []string{
					"DDNS_FQDN=a.example.", "HOME=" + u.HomeDir, "LANG=C.UTF-8", "LOGNAME=" + name, "MODE=a=b\nc",
					"PATH=/usr/local/bin:/usr/bin:/bin", "USER=" + name,
				}
				if !slices.Equal(sorted(got.Env), want) {
					t.Errorf("environment: got %q, want %q", sorted(got.Env), want)
				}
				if want := []string{bin, "hook-helper", "report", "a b", "$HOME", ""}; !slices.Equal(got.Args, want) {
					t.Errorf("arguments: got %q, want %q", got.Args, want)
				}
				if got.Cwd != "/etc" || got.Umask != 0o077 || got.Session != got.Pid || got.Stdin != 0 {
					t.Errorf("got cwd %q, umask %#o, session %d of pid %d, %d octets of input", got.Cwd, got.Umask, got.Session, got.Pid, got.Stdin)
				}
				if len(got.Fds) != 3 || got.Fds["0"] != "/dev/null" || !strings.HasPrefix(got.Fds["1"], "pipe:") || got.Fds["1"] != got.Fds["2"] {
					t.Errorf("descriptors: got %v", got.Fds)
				}
				if inGroup := strings.Contains(got.Cgroup, "/ddns-hooks."); inGroup != (r.Guarantees().Tree == "") {
					t.Errorf("control group: got %q, and Guarantees says %q", got.Cgroup, r.Guarantees().Tree)
				}
			})
		}
	})
	if u := syscall.Umask(0); u != 0 {
		t.Errorf("the umask of the host became %#o", u)
	}
	b, _ := os.ReadFile("/proc/self/status")
	if strings.Contains(string(b), "NoNewPrivs:\t1") {
		t.Error("the main thread of the host has no_new_privs")
	}
}

func checkIdentity(t *testing.T, got selfReport, u *user.User) {
	t.Helper()
	groups, err := u.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join([]string{u.Uid, u.Uid, u.Uid, u.Uid}, " "); got.Status["Uid"] != want {
		t.Errorf("Uid: got %s, want %s", got.Status["Uid"], want)
	}
	if want := strings.Join([]string{u.Gid, u.Gid, u.Gid, u.Gid}, " "); got.Status["Gid"] != want {
		t.Errorf("Gid: got %s, want %s", got.Status["Gid"], want)
	}
	if have := strings.Fields(got.Status["Groups"]); !slices.Equal(sorted(have), sorted(groups)) {
		t.Errorf("Groups: got %v, want %v", have, groups)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		// 32 and 33 are libc's own: glibc's posix_spawn, as make uses it, leaves
		// them ignored in whatever it starts, and no program can tell.
		signals, err := strconv.ParseUint(got.Status[set], 16, 64)
		if err != nil || signals&^(1<<31|1<<32) != 0 {
			t.Errorf("%s: got %s, want none", set, got.Status[set])
		}
	}
	if got.Status["NoNewPrivs"] != "1" {
		t.Errorf("NoNewPrivs: got %s, want 1", got.Status["NoNewPrivs"])
	}
	for _, set := range []string{"SigBlk", "SigIgn"} {
		// 32 and 33 are libc's own: glibc's posix_spawn, as make uses it, leaves
		// them ignored in whatever it starts, and no program can tell.
		signals, err := strconv.ParseUint(got.Status[set], 16, 64)
		if err != nil || signals&^(1<<31|1<<32) != 0 {
			t.Errorf("%s: got %s, want none", set, got.Status[set])
		}
	}
}

// An account with supplementary groups is not on every machine, and /etc is not ours
// to change: the inner test has account files of its own in a mount namespace.
func TestAllSupplementaryGroups(t *testing.T) {
	needRoot(t)
	if os.Getenv("HOOK_TEST_ACCOUNTS") == "" {
		dir := t.TempDir()
		passwd, group := filepath.Join(dir, "passwd"), filepath.Join(dir, "group")
		writeFile(t, passwd, "root:x:0:0:root:/root:/bin/sh\nhooker:x:4711:4712::/home/hooker:/bin/sh\nwheelie:x:4720:4712::/:/bin/sh\n", 0o644)
		writeFile(t, group, "root:x:0:wheelie\nhooker:x:4712:\none:x:4713:hooker\ntwo:x:4714:other,hooker\nthree:x:4715:other\n", 0o644)
		cmd := exec.Command("unshare", "-m", "sh", "-ec",
			`mount --bind "$0" /etc/passwd; mount --bind "$1" /etc/group; exec "$2" -test.run '^TestAllSupplementaryGroups$' -test.v`,
			passwd, group, "/proc/"+strconv.Itoa(os.Getpid())+"/exe")
		cmd.Env = append(os.Environ(), "HOOK_TEST_ACCOUNTS=1")
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "unshare failed") {
			t.Skipf("no mount namespace can be made: %s", out)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	bin := helper(t)
	r := newRunner(t, hooks.RunnerOptions{})
	got := selfReportOf(t, r.Run(t.Context(), hooks.Spec{Command: []string{bin, "hook-helper", "report"}, User: "hooker"}))
	if got.Status["Groups"] != "4712 4713 4714" || got.Status["Gid"] != "4712 4712 4712 4712" {
		t.Errorf("user hooker: got groups %s, gid %s", got.Status["Groups"], got.Status["Gid"])
	}
	got = selfReportOf(t, r.Run(t.Context(), hooks.Spec{Command: []string{bin, "hook-helper", "report"}, User: "4711", Group: "three"}))
	if got.Status["Groups"] != "4712 4713 4714" || got.Status["Gid"] != "4715 4715 4715 4715" {
		t.Errorf("user 4711, group three: got groups %s, gid %s", got.Status["Groups"], got.Status["Gid"])
	}
	o := r.Run(t.Context(), hooks.Spec{Command: []string{bin, "hook-helper", "report"}, User: "wheelie"})
	if !errors.Is(o.Err, hooks.ErrIdentity) {
		t.Errorf("a member of the group root without `root`: got %v, want %v", o.Err, hooks.ErrIdentity)
	}
}

func TestRootOnlyWhereTheDefinitionSaysSo(t *testing.T) {
	needRoot(t)
	bin := helper(t)
	r := newRunner(t, hooks.RunnerOptions{})
	for _, s := range []hooks.Spec{
		{User: "root"}, {User: "0"}, {User: ""}, {User: "nobody", Group: "root"}, {User: "nobody", Group: "0"},
	} {
		s.Command = []string{bin, "hook-helper", "report"}
		if o := r.Run(t.Context(), s); !errors.Is(o.Err, hooks.ErrIdentity) || o.Started {
			t.Errorf("user %q, group %q: got %+v, want %v", s.User, s.Group, o, hooks.ErrIdentity)
		}
		s.Root = true
		got := selfReportOf(t, r.Run(t.Context(), s))
		if got.Status["NoNewPrivs"] != "1" {
			t.Errorf("user %q: NoNewPrivs is %s", s.User, got.Status["NoNewPrivs"])
		}
	}
}

func TestOutcomes(t *testing.T) {
	runners(t, func(t *testing.T, r *hooks.Runner) {
		bin := helper(t)
		for _, c := range []struct {
			name     string
			command  []string
			result   string
			sentence string
			output   string
		}{
			{"success is silent", []string{"/bin/sh", "-c", "echo fine"}, "ok", "", "fine\n"},
			{"an exit status is told with the output", []string{"/bin/sh", "-c", "echo no such table >&2; exit 75"}, "failed", "exit status 75: no such table", "no such table\n"},
			{"a signal is told by number and name", []string{"/bin/sh", "-c", "kill -9 $$"}, "signal", "ended by signal 9 (killed)", ""},
			{"output that is not text is made text", []string{bin, "hook-helper", "binary"}, "failed", "exit status 3: \uFFFD [31mred", "\uFFFD\x00\x1b[31mred"},
			{"no shell reads the arguments", []string{"/bin/echo", "$(id);`id`", "*"}, "ok", "", "$(id);`id` *\n"},
		} {
			t.Run(c.name, func(t *testing.T) {
				o := r.Run(t.Context(), ownSpec(c.command...))
				if o.Result() != c.result || o.Sentence() != c.sentence || o.Output != c.output || !o.Started {
					t.Errorf("got %s, %q, output %q; want %s, %q, %q", o.Result(), o.Sentence(), o.Output, c.result, c.sentence, c.output)
				}
			})
		}
	})
}

func TestOutputKeepsItsBeginningAndItsEnd(t *testing.T) {
	r := newRunner(t, hooks.RunnerOptions{Grace: 100 * time.Millisecond})
	o := r.Run(t.Context(), ownSpec("/bin/sh", "-c", `echo first; i=0; while [ $i -lt 3000 ]; do printf '%0100d\n' $i; i=$((i+1)); done; echo last`))
	if s := o.Sentence(); s != "" {
		t.Fatal(s)
	}
	want := int64(len("first\nlast\n")+3000*101) - 64<<10
	if o.Missing != want || !strings.HasPrefix(o.Output, "first\n") || !strings.HasSuffix(o.Output, "2999\nlast\n") ||
		!strings.Contains(o.Output, fmt.Sprintf("[... %d octets left out ...]", want)) {
		t.Errorf("missing %d, want %d; output of %d octets begins %q", o.Missing, want, len(o.Output), o.Output[:20])
	}
}

// Everything that a child may do to be there after its time.
func TestNothingOutlivesItsTimeLimit(t *testing.T) {
	needRoot(t)
	bin := helper(t)
	runners(t, func(t *testing.T, r *hooks.Runner) {
		for _, c := range []struct {
			name    string
			command func(token string) []string
		}{
			{"ignores TERM", func(token string) []string { return []string{bin, "hook-helper", "deaf", token} }},
			{"floods its output", func(token string) []string { return []string{bin, "hook-helper", "flood", token} }},
			{"closes its output", func(token string) []string {
				return []string{"/bin/sh", "-c", "exec >&- 2>&-; trap '' TERM; while :; do sleep 1; done", token}
			}},
			{"stops itself", func(token string) []string {
				return []string{"/bin/sh", "-c", "trap '' TERM; kill -STOP $$; sleep 100", token}
			}},
			{"calls setsid", func(token string) []string {
				return []string{"/bin/sh", "-c", `setsid sh -c 'trap "" TERM; while :; do sleep 1; done' "$0" & sleep 100`, token}
			}},
			{"forks twice and hides", func(token string) []string {
				return []string{"/bin/sh", "-c", `(setsid env -i /bin/sh -c 'trap "" TERM HUP; while :; do /bin/sleep 1; done' "$0" </dev/null >/dev/null 2>&1 &) ; sleep 100`, token}
			}},
			{"ends at once and leaves a daemon", func(token string) []string {
				return []string{"/bin/sh", "-c", `(setsid env -i /bin/sh -c 'trap "" TERM HUP; while :; do /bin/sleep 1; done' "$0" </dev/null >/dev/null 2>&1 &)`, token}
			}},
			{"ends at once and leaves its output to a daemon", func(token string) []string {
				return []string{"/bin/sh", "-c", `setsid sleep 1000.$0 & echo started`, strconv.Itoa(int(time.Now().UnixNano() % 1e6))}
			}},
			{"forks without end", func(token string) []string {
				return []string{"/bin/bash", "-c", `ulimit -u 150; f() { f "$1" & f "$1" & sleep 50; }; f "$0" 2>/dev/null; f "$0" 2>/dev/null`, token}
			}},
			{"forks a chain of sessions", func(token string) []string {
				return []string{"/bin/sh", "-c", `ulimit -p 100 2>/dev/null; trap '' TERM; echo 'sleep 0.01; setsid sh '$1' '$2' & sleep 0.02' > $1; sh $1 $0; sleep 100`, token, "/tmp/chain-" + token, token}
			}},
		} {
			t.Run(c.name, func(t *testing.T) {
				token := fmt.Sprintf("tok%d", time.Now().UnixNano())
				if strings.Contains(c.name, "chain") {
					t.Cleanup(func() { os.Remove("/tmp/chain-" + token) })
				}
				began := time.Now()
				o := r.Run(t.Context(), hooks.Spec{Hook: "test", Command: c.command(token), User: "nobody", Timeout: time.Second,
					Env: map[string]string{"DDNS_EVENT_ID": token}})
				took := time.Since(began)
				if left := withToken(token); len(left) > 0 {
					t.Errorf("%d processes are left: %v", len(left), left)
				}
				if z := zombies(); len(z) > 0 {
					t.Errorf("zombies are left: %v", z)
				}
				if took > 15*time.Second { // of other work on the machine, mostly
					t.Errorf("took %v", took)
				}
				if !o.Started {
					t.Errorf("not started: %v", o.Err)
				}
				if o.Err != nil {
					t.Errorf("got %v", o.Err)
				}
				if strings.Contains(c.name, "ends at once") == o.TimedOut {
					t.Errorf("timed out is %v after %v", o.TimedOut, took)
				}
				if !o.Killed && c.name != "floods its output" { // that one does end at TERM
					t.Error("nothing was killed")
				}
			})
		}
	})
}

func TestTermComesBeforeKill(t *testing.T) {
	bin := helper(t)
	runners(t, func(t *testing.T, _ *hooks.Runner) {
		r := newRunner(t, hooks.RunnerOptions{Grace: 5 * time.Second})
		s := ownSpec(bin, "hook-helper", "polite")
		s.Timeout = 300 * time.Millisecond
		o := r.Run(t.Context(), s)
		if o.Output != "ready\nasked to end\n" || o.Killed || !o.TimedOut || o.ExitCode != 0 || o.Duration > 3*time.Second {
			t.Errorf("got %+v", o)
		}
		if want := "timed out after 300ms: ready asked to end"; o.Sentence() != want {
			t.Errorf("got %q, want %q", o.Sentence(), want)
		}
	})
}

func TestCallerGivesUp(t *testing.T) {
	runners(t, func(t *testing.T, r *hooks.Runner) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		o := r.Run(ctx, ownSpec("/bin/sh", "-c", "trap '' TERM; sleep 100; sleep 100"))
		if !o.Canceled || o.Duration > 3*time.Second || !o.Killed {
			t.Errorf("got %+v", o)
		}
	})
}

// Frozen by the kernel, a process takes no signal: the state of one that waits for
// a dead disk.
func TestUnkillableIsSaidAndKeepsItsPlace(t *testing.T) {
	needRoot(t)
	freezer := "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(freezer); err != nil {
		t.Skip("no freezer of version 1, the only one that withstands KILL")
	}
	dir, err := os.MkdirTemp(freezer, "hooktest")
	if err != nil {
		t.Skip(err)
	}
	defer os.Remove(dir)
	runners(t, func(t *testing.T, r0 *hooks.Runner) {
		r := newRunner(t, hooks.RunnerOptions{
			Grace: 100 * time.Millisecond, KillWait: 500 * time.Millisecond, Parallel: 1, Queue: 100 * time.Millisecond,
			ProcessGroups: r0.Guarantees().Tree != "",
		})
		writeFile(t, dir+"/freezer.state", "THAWED", 0)
		s := ownSpec("/bin/sh", "-c", `echo $$ > `+dir+`/cgroup.procs; echo FROZEN > `+dir+`/freezer.state; sleep 100`)
		s.Timeout = 200 * time.Millisecond
		o := r.Run(t.Context(), s)
		if o.Err == nil || !strings.Contains(o.Sentence(), "could not be killed") || o.Result() != "stuck" || o.Duration > 4*time.Second {
			t.Errorf("got %+v", o)
		}
		if o := r.Run(t.Context(), ownSpec("/bin/true")); !errors.Is(o.Err, hooks.ErrBusy) {
			t.Errorf("while it is stuck: got %v, want %v", o.Err, hooks.ErrBusy)
		}
		writeFile(t, dir+"/freezer.state", "THAWED", 0)
		eventually(t, "freeing the place", func() bool {
			o := r.Run(t.Context(), ownSpec("/bin/true"))
			return o.Sentence() == ""
		})
		if z := zombies(); len(z) > 0 {
			t.Errorf("zombies are left: %v", z)
		}
	})
}

func writeFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestClosedRunnerRunsNothing(t *testing.T) {
	r := hooks.NewRunner(hooks.RunnerOptions{Grace: 50 * time.Millisecond})
	done := make(chan hooks.Outcome)
	go func() { done <- r.Run(context.Background(), ownSpec("/bin/sleep", "100")) }()
	time.Sleep(50 * time.Millisecond)
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if o := <-done; !o.Canceled && !errors.Is(o.Err, hooks.ErrClosed) {
		t.Errorf("the run that went on: got %+v", o)
	}
	if o := r.Run(t.Context(), ownSpec("/bin/true")); !errors.Is(o.Err, hooks.ErrClosed) {
		t.Errorf("a new run: got %v, want %v", o.Err, hooks.ErrClosed)
	}
}

// TestTasksAreLimited: a hook that forks for ever must leave room for the threads of the
// program that runs it.
func TestTasksAreLimited(t *testing.T) {
	needRoot(t)
	var before, after syscall.Rlimit
	const nproc = 6 // RLIMIT_NPROC
	if err := syscall.Getrlimit(nproc, &before); err != nil {
		t.Fatal(err)
	}
	runners(t, func(t *testing.T, r *hooks.Runner) {
		run := func(user, script string) string {
			t.Helper()
			o := r.Run(t.Context(), hooks.Spec{Hook: "test", Command: []string{"/bin/bash", "-c", script}, User: user, Root: user == "", Timeout: 20 * time.Second})
			return strings.TrimSpace(o.Output)
		}
		const count = `exec perl -e '$n = 0; while ($n < 300) { $p = fork; last unless defined $p; if (!$p) { sleep 5; exit } $n++ } print $n'`
		said := run("nobody", count)
		if n, err := strconv.Atoi(said); err != nil || n < 50 || n > 130 {
			t.Errorf("nobody started %q processes, %v", said, err)
		}
	})
	if err := syscall.Getrlimit(nproc, &after); err != nil || after != before {
		t.Errorf("the limit of this process was %v and is %v, %v", before, after, err)
	}
}

// TestOutputCanBeOpened: scripts write to /dev/stderr by name.
func TestOutputCanBeOpened(t *testing.T) {
	needRoot(t)
	runners(t, func(t *testing.T, r *hooks.Runner) {
		o := r.Run(t.Context(), hooks.Spec{Hook: "test", Command: []string{"/bin/sh", "-c", "echo one >/dev/stderr && echo two >/dev/stdout"}, User: "nobody"})
		if o.Output != "one\ntwo\n" || o.ExitCode != 0 {
			t.Errorf("got %+v", o)
		}
	})
}

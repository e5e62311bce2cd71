//go:build linux

package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/hooks"
)

// The table of everything that a Spec can have wrong: nothing is started, and the
// sentence names what it is.
func TestBadSpecsAreNotStarted(t *testing.T) {
	needRoot(t)
	good := script(t, "echo ran")
	dir := filepath.Dir(good)
	put := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		writeFile(t, path, "#!/bin/sh\necho ran\n", 0o755)
		if err := os.Chown(path, uid, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sub := func(name string, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(path, "hook"), "#!/bin/sh\necho ran\n", 0o755)
		if err := os.Chown(path, uid, 0); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	link := func(name, target string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const nobody, daemon = 65534, 1
	huge := strings.Repeat("x", 70<<10)
	r := newRunner(t, hooks.RunnerOptions{})
	base := hooks.Spec{Hook: "test", Command: []string{good}, User: "nobody"}
	for _, c := range []struct {
		name string
		edit func(s *hooks.Spec)
		want string // "" when it must run
	}{
		{"as it is", func(s *hooks.Spec) {}, ""},
		{"no command", func(s *hooks.Spec) { s.Command = nil }, "there is no command"},
		{"an empty command", func(s *hooks.Spec) { s.Command = []string{""} }, "path of command is empty"},
		{"a relative command", func(s *hooks.Spec) { s.Command = []string{"bin/true"} }, "not an absolute path"},
		{"a command found by PATH", func(s *hooks.Spec) { s.Command = []string{"true"} }, "not an absolute path"},
		{"a command with ..", func(s *hooks.Spec) { s.Command = []string{"/usr/../bin/true"} }, "not a plain path"},
		{"a command with a final slash", func(s *hooks.Spec) { s.Command = []string{"/bin/true/"} }, "not a plain path"},
		{"a command with NUL", func(s *hooks.Spec) { s.Command = []string{good + "\x00.txt"} }, "NUL"},
		{"an argument with NUL", func(s *hooks.Spec) { s.Command = []string{good, "a\x00b"} }, "argument 1 of the command has a NUL"},
		{"a command that is too long", func(s *hooks.Spec) { s.Command = []string{good, huge} }, "octets"},
		{"too many arguments", func(s *hooks.Spec) { s.Command = append([]string{good}, make([]string, 64)...) }, "65 arguments"},
		{"a command that is missing", func(s *hooks.Spec) { s.Command = []string{dir + "/missing"} }, "no such file"},
		{"a command that is a directory", func(s *hooks.Spec) { s.Command = []string{dir} }, "not a regular file"},
		{"a command that is a device", func(s *hooks.Spec) { s.Command = []string{"/dev/null"} }, "/dev/null"},
		{"a command that is not executable", func(s *hooks.Spec) { s.Command = []string{put("plain", 0o644, 0)} }, "not executable"},
		{"a command that only root may execute", func(s *hooks.Spec) { s.Command = []string{put("private", 0o700, 0)} }, "permission denied"},
		{"a command that others can write", func(s *hooks.Spec) { s.Command = []string{put("open", 0o757, 0)} }, "can be written by others"},
		{"a command that its group can write", func(s *hooks.Spec) { s.Command = []string{put("shared", 0o775, 0)} }, "can be written by others"},
		{"a command of the user itself", func(s *hooks.Spec) { s.Command = []string{put("own", 0o755, nobody)} }, ""},
		{"a command of a third user", func(s *hooks.Spec) { s.Command = []string{put("alien", 0o755, daemon)} }, "owned by uid 1"},
		{"a setuid command", func(s *hooks.Spec) { s.Command = []string{put("suid", 0o755|os.ModeSetuid, 0)} }, "setuid"},
		{"a setgid command", func(s *hooks.Spec) { s.Command = []string{put("sgid", 0o755|os.ModeSetgid, 0)} }, "setgid"},
		{"a command in a directory that others can write", func(s *hooks.Spec) { s.Command = []string{sub("wdir", 0o777, 0) + "/hook"} }, "can be written by others"},
		{"a command in a directory of a third user", func(s *hooks.Spec) { s.Command = []string{sub("adir", 0o755, daemon) + "/hook"} }, "owned by uid 1"},
		{"a command in a sticky directory", func(s *hooks.Spec) { s.Command = []string{sub("sticky", 0o777|os.ModeSticky, 0) + "/hook"} }, ""},
		{"a link to a command", func(s *hooks.Spec) { s.Command = []string{link("l1", good)} }, ""},
		{"a relative link to a command", func(s *hooks.Spec) { s.Command = []string{link("l2", "../"+filepath.Base(dir)+"/hook.sh")} }, ""},
		{"a link to what others can write", func(s *hooks.Spec) { s.Command = []string{link("l3", put("open2", 0o757, 0))} }, "can be written by others"},
		{"a link of a third user", func(s *hooks.Spec) {
			l := link("l4", good)
			if err := os.Lchown(l, daemon, 0); err != nil {
				t.Fatal(err)
			}
			s.Command = []string{l}
		}, "owned by uid 1"},
		{"a link to itself", func(s *hooks.Spec) { s.Command = []string{link("l5", "l5")} }, "too many symbolic links"},
		{"a script without interpreter", func(s *hooks.Spec) {
			p := put("noexec", 0o755, 0)
			writeFile(t, p, "#!/nonexistent/sh\n", 0o755)
			s.Command = []string{p}
		}, "no such file"},
		{"an unknown user", func(s *hooks.Spec) { s.User = "no-such-user" }, "unknown user"},
		{"a user by number", func(s *hooks.Spec) { s.User = "65534" }, ""},
		{"a number that is nobody's", func(s *hooks.Spec) { s.User = "54321" }, "unknown userid"},
		{"a number beyond 32 bits", func(s *hooks.Spec) { s.User = "4294967296" }, "4294967296"},
		{"the number that means unchanged", func(s *hooks.Spec) { s.User = "4294967295" }, "4294967294"},
		{"a group beyond 32 bits", func(s *hooks.Spec) { s.Group = "4294967297" }, "4294967297"},
		{"a negative user", func(s *hooks.Spec) { s.User = "-1" }, "not the name or number of a user"},
		{"a user with a colon", func(s *hooks.Spec) { s.User = "nobody:x" }, "not the name or number of a user"},
		{"a user with NUL", func(s *hooks.Spec) { s.User = "nobody\x00" }, "not the name or number of a user"},
		{"a huge user", func(s *hooks.Spec) { s.User = huge }, "not the name or number of a user"},
		{"an unknown group", func(s *hooks.Spec) { s.Group = "no-such-group" }, "unknown group"},
		{"a huge group", func(s *hooks.Spec) { s.Group = huge }, "not the name or number of a group"},
		{"another group", func(s *hooks.Spec) { s.Group = "daemon" }, ""},
		{"a relative cwd", func(s *hooks.Spec) { s.Cwd = "tmp" }, "not an absolute path"},
		{"a cwd with ..", func(s *hooks.Spec) { s.Cwd = "/etc/.." }, "not a plain path"},
		{"a cwd with NUL", func(s *hooks.Spec) { s.Cwd = "/etc\x00" }, "NUL"},
		{"a huge cwd", func(s *hooks.Spec) { s.Cwd = "/" + huge }, "octets"},
		{"a cwd that is missing", func(s *hooks.Spec) { s.Cwd = dir + "/missing" }, "no such file"},
		{"a cwd that is a file", func(s *hooks.Spec) { s.Cwd = good }, "not a directory"},
		{"a cwd that everybody can write", func(s *hooks.Spec) { s.Cwd = "/tmp" }, "can be written by others"},
		{"a cwd that the user cannot enter", func(s *hooks.Spec) { s.Cwd = sub("closed", 0o700, 0) }, "permission denied"},
		{"a negative time limit", func(s *hooks.Spec) { s.Timeout = -time.Second }, "negative"},
		{"an enormous time limit", func(s *hooks.Spec) { s.Timeout = 1<<63 - 1 }, ""},
		{"an empty variable name", func(s *hooks.Spec) { s.Env = map[string]string{"": "x"} }, "not a name"},
		{"a variable name with =", func(s *hooks.Spec) { s.Env = map[string]string{"A=B": "x"} }, "not a name"},
		{"a variable name with NUL", func(s *hooks.Spec) { s.Env = map[string]string{"A\x00": "x"} }, "not a name"},
		{"a function of bash", func(s *hooks.Spec) { s.Env = map[string]string{"BASH_FUNC_ls%%": "() { :; }"} }, "not a name"},
		{"a huge variable name", func(s *hooks.Spec) { s.Env = map[string]string{huge: "x"} }, "octets"},
		{"a value with NUL", func(s *hooks.Spec) { s.Env = map[string]string{"A": "x\x00y"} }, "NUL"},
		{"a huge value", func(s *hooks.Spec) { s.Env = map[string]string{"A": huge + huge} }, "octets"},
		{"a value as large as may be", func(s *hooks.Spec) { s.Env = map[string]string{"A": strings.Repeat("x", hooks.MaxEnvValue)} }, ""},
		{"too many variables", func(s *hooks.Spec) {
			s.Env = map[string]string{}
			for i := range 65 {
				s.Env["V"+strings.Repeat("X", i)] = ""
			}
		}, "65 variables"},
		{"LD_PRELOAD", func(s *hooks.Spec) { s.Env = map[string]string{"LD_PRELOAD": "/tmp/x.so"} }, "LD_PRELOAD"},
		{"PATH", func(s *hooks.Spec) { s.Env = map[string]string{"PATH": "/tmp"} }, "PATH"},
		{"PYTHONPATH", func(s *hooks.Spec) { s.Env = map[string]string{"PYTHONPATH": "/tmp"} }, "PYTHONPATH"},
		{"BASH_ENV", func(s *hooks.Spec) { s.Env = map[string]string{"BASH_ENV": "/tmp/x"} }, "BASH_ENV"},
		{"DDNS_ in lower case", func(s *hooks.Spec) { s.Env = map[string]string{"DDNS_fqdn": "x"} }, "DDNS_fqdn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := base
			c.edit(&s)
			o := r.Run(t.Context(), s)
			if c.want == "" {
				if o.Sentence() != "" || o.Output != "ran\n" {
					t.Errorf("got %q, output %q; it must run", o.Sentence(), o.Output)
				}
				return
			}
			if o.Started || !strings.Contains(o.Sentence(), c.want) {
				t.Errorf("got started %v, %.300q; want nothing started and %q", o.Started, o.Sentence(), c.want)
			}
			if strings.ContainsRune(o.Sentence(), 0) || len(o.Sentence()) > 500 {
				t.Errorf("the sentence is not fit for a log: %d octets", len(o.Sentence()))
			}
		})
	}
}

// A process without privilege runs hooks as itself, says what it cannot do, and
// refuses every other user. The inner test is this binary as nobody.
func TestUnprivilegedRefusesOtherUsers(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t, "^TestUnprivilegedRefusesOtherUsers$")
		return
	}
	r := newRunner(t, hooks.RunnerOptions{})
	g := r.Guarantees()
	if g.Users == "" || g.Isolation == "" || !strings.Contains(g.String(), "degraded") {
		t.Errorf("Guarantees: got %+v", g)
	}
	s := hooks.Spec{Command: []string{"/bin/sh", "-c", "id -u; (setsid sleep 1234 &); sleep 0.05"}}
	if o := r.Run(t.Context(), s); o.Sentence() != "" || !o.Killed {
		t.Errorf("as itself: got %q, killed %v", o.Sentence(), o.Killed)
	}
	for _, user := range []string{"root", "daemon", "0"} {
		s.User, s.Root = user, true
		if o := r.Run(t.Context(), s); o.Started || !strings.Contains(o.Sentence(), "cannot become the user") {
			t.Errorf("as %s: got started %v, %q", user, o.Started, o.Sentence())
		}
	}
	s.User, s.Group = "", "daemon"
	if o := r.Run(t.Context(), s); o.Started || !strings.Contains(o.Sentence(), "cannot become the user") {
		t.Errorf("as another group: got started %v, %q", o.Started, o.Sentence())
	}
	if z := zombies(); len(z) > 0 {
		t.Errorf("zombies are left: %v", z)
	}
	if u := syscall.Getuid(); u == 0 {
		t.Error("the inner test runs as root")
	}
}

//go:build linux

package hooks_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is also what the hooks under test run: a copy of it, in a
// directory that every user can reach, called with "hook-helper" and what to do.
func init() {
	if len(os.Args) < 3 || os.Args[1] != "hook-helper" {
		return
	}
	switch os.Args[2] {
	case "report":
		report()
	case "deaf": // takes no notice of TERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("deaf")
		for {
			time.Sleep(time.Hour)
		}
	case "flood":
		b := []byte(strings.Repeat("x", 32<<10))
		for {
			if _, err := os.Stdout.Write(b); err != nil {
				os.Exit(0)
			}
		}
	case "binary":
		os.Stdout.Write([]byte("\xff\xfe\x00\x1b[31mred"))
		os.Exit(3)
	case "squat": // listens where another should
		l, err := net.Listen("unix", os.Args[3])
		if err != nil {
			os.Exit(1)
		}
		os.Chmod(os.Args[3], 0o777)
		for {
			l.Accept()
		}
	case "polite": // ends at TERM, after saying so
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		fmt.Println("asked to end")
		os.Exit(0)
	}
	os.Exit(0)
}

// A selfReport is what a child says of itself.
type selfReport struct {
	Status  map[string]string
	Fds     map[string]string
	Env     []string
	Args    []string
	Cwd     string
	Umask   int
	Session int
	Pid     int
	Stdin   int
	Cgroup  string
}

func report() {
	r := selfReport{Status: map[string]string{}, Fds: map[string]string{}, Env: os.Environ(), Args: os.Args, Pid: os.Getpid()}
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		r.Status[name] = strings.Join(strings.Fields(value), " ")
	}
	r.Cwd, _ = os.Getwd()
	r.Umask = syscall.Umask(0)
	r.Session, _, _ = sysGetsid()
	in, _ := io.ReadAll(os.Stdin)
	r.Stdin = len(in)
	// The Go runtime of this helper opens descriptors for its poller: only what was
	// there before main is of interest, and that is never close-on-exec.
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		fd, _ := strconv.Atoi(filepath.Base(l))
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0)
		if errno == 0 && flags&syscall.FD_CLOEXEC == 0 {
			r.Fds[filepath.Base(l)], _ = os.Readlink(l)
		}
	}
	c, _ := os.ReadFile("/proc/self/cgroup")
	r.Cgroup = string(c)
	json.NewEncoder(os.Stdout).Encode(r)
}

func sysGetsid() (int, int, error) {
	r, _, errno := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(r), 0, nil
}

// reachable makes a directory below t.TempDir that every user can enter.
func reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; filepath.Dir(d) != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(filepath.Dir(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// helper returns the path of a copy of the test binary.
func helper(t *testing.T) string {
	t.Helper()
	path := filepath.Join(reachable(t), "hook")
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// script writes a shell script that every user can run.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(reachable(t), "hook.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// needRoot skips for a developer, and fails in CI, where the tests run as root.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("CI must run this as root")
	}
	t.Skip("needs root")
}

// withToken lists the living processes that have the token in their arguments or
// environment, and the zombies that are children of this process.
func withToken(token string) (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		args, _ := os.ReadFile(d + "/cmdline")
		env, _ := os.ReadFile(d + "/environ")
		if strings.Contains(string(args), token) || strings.Contains(string(env), token) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			if pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// zombies lists the dead children of this process that nobody has reaped.
func zombies() (pids []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ")
		f := strings.Fields(rest)
		if len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// eventually waits for what another process does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// A sleeper is a child of the test itself, which no Runner may touch.
type sleeper struct{ cmd *exec.Cmd }

func startSleeper(t *testing.T, session bool) *sleeper {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "100")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return &sleeper{cmd}
}

func (s *sleeper) alive() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// asNobody runs tests of this binary as the user nobody.
func asNobody(t *testing.T, pattern string) {
	t.Helper()
	cmd := exec.Command(helper(t), "-test.run", pattern, "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534, Groups: []uint32{65534}}}
	cmd.Env = append(os.Environ(), "TMPDIR=/tmp")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as nobody: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

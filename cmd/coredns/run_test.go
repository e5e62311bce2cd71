package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trial is one "make run": scripts/run.sh with the binaries of this test.
type trial struct {
	cmd    *exec.Cmd
	dir    string // where the printed commands are to be typed
	stderr bytes.Buffer
	done   chan error // the script's end
	lines  []string   // the commands it printed to try
}

// ports are two of 127.0.0.1 that nobody listens on.
func ports(t *testing.T) (dns, http string) {
	t.Helper()
	var free [2]string
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		free[i] = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	}
	return free[0], free[1]
}

// script is run.sh on dir, from the directory that holds dir, not started.
func script(t *testing.T, dir, dns, http string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs("../../scripts/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	// Not with the test's context: it ends before the cleanup, and a killed
	// script leaves its server behind.
	cmd := exec.Command(path, filepath.Base(dir))
	cmd.Dir = filepath.Dir(dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = append(os.Environ(), "BIN="+built(t), "DNS_PORT="+dns, "HTTP_PORT="+http)
	return cmd
}

// start runs run.sh until it has printed what to try.
func start(t *testing.T, dir, dns, http string) *trial {
	t.Helper()
	r := &trial{cmd: script(t, dir, dns, http), dir: filepath.Dir(dir), done: make(chan error, 1)}
	r.cmd.Stderr = &r.stderr
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.stop(t) })

	ready := make(chan []string, 1)
	go func() {
		var lines []string
		var log strings.Builder
		s := bufio.NewScanner(stdout)
		for s.Scan() {
			log.WriteString(s.Text() + "\n")
			if command, ok := strings.CutPrefix(s.Text(), "    "); ok {
				lines = append(lines, command)
			}
			if strings.Contains(s.Text(), "Ctrl-C") {
				ready <- lines
			}
		}
		r.done <- r.cmd.Wait()
	}()
	select {
	case r.lines = <-ready:
	case err := <-r.done:
		r.done <- err
		t.Fatalf("run.sh ended: %v\n%s", err, r.stderr.String())
	case <-time.After(time.Minute):
		t.Fatalf("run.sh printed nothing to try within a minute\n%s", r.stderr.String())
	}
	if len(r.lines) != 2 {
		t.Fatalf("printed %d commands to try, want curl and dig: %q", len(r.lines), r.lines)
	}
	return r
}

// stop ends run.sh as Ctrl-C does; once it has ended, stop does nothing.
func (r *trial) stop(t *testing.T) {
	if r.done == nil {
		return
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	if err := r.wait(t); err != nil {
		t.Errorf("run.sh, told to stop: %v\n%s", err, r.stderr.String())
	}
}

func (r *trial) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.done:
		r.done = nil
		return err
	case <-time.After(30 * time.Second):
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		t.Fatal("run.sh did not end within 30 seconds")
		return nil
	}
}

// try runs a printed command as the shell of a newcomer would.
func (r *trial) try(t *testing.T, command string) string {
	t.Helper()
	return output(t, "bash", "-c", `cd "$1" && eval "$2"`, "try", r.dir, command)
}

func TestRunPrintsWhatWorks(t *testing.T) {
	need(t, "curl", "dig")
	dir := filepath.Join(t.TempDir(), "my data")
	dns, http := ports(t)

	r := start(t, dir, dns, http)
	if got := r.try(t, r.lines[1]); got != "" {
		t.Errorf("before the update dig printed %q, want nothing", got)
	}
	update := strings.Replace(r.lines[0], "curl ", "curl -sS ", 1)
	var reply struct {
		FQDN    string
		Changed bool
	}
	if out := r.try(t, update); json.Unmarshal([]byte(out), &reply) != nil || !reply.Changed || reply.FQDN != "laptop.dyn.example.org." {
		t.Errorf("the printed curl command got %s", out)
	}
	if got := r.try(t, r.lines[1]); got != "192.0.2.7\n" {
		t.Errorf("after the update dig printed %q, want 192.0.2.7", got)
	}
	kept := contents(t, dir, "token", "policy", "Corefile")
	r.stop(t)

	// What Ctrl-C stopped comes back as it was, and what is killed as well.
	r = start(t, dir, "1", "1")
	if got := r.try(t, r.lines[1]); got != "192.0.2.7\n" {
		t.Errorf("after a restart dig printed %q, want 192.0.2.7", got)
	}
	r.try(t, strings.Replace(update, "192.0.2.7", "192.0.2.8", 1))
	kill(t, r)
	r = start(t, dir, "1", "1")
	if got := r.try(t, r.lines[1]); got != "192.0.2.8\n" {
		t.Errorf("after kill -9 dig printed %q, want 192.0.2.8", got)
	}
	for file, was := range kept {
		if now := contents(t, dir, file)[file]; now != was {
			t.Errorf("%s changed from\n%s\nto\n%s", file, was, now)
		}
	}
	for _, file := range []string{"token", "policy", "ddns.db"} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others can read it", file, info.Mode().Perm())
		}
	}
	r.stop(t)
}

// kill ends the server below run.sh as a power cut would.
func kill(t *testing.T, r *trial) {
	t.Helper()
	pid := strconv.Itoa(r.cmd.Process.Pid)
	children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		t.Fatalf("run.sh should have one child: %v", err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := r.wait(t); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGKILL) {
		t.Errorf("run.sh after its server was killed: got %v, want exit status 137", err)
	}
}

func contents(t *testing.T, dir string, files ...string) map[string]string {
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

// TestQuickStart holds the README to what make run prints: its commands are those
// of TestRunPrintsWhatWorks, on the ports and with the directory of a first start.
func TestQuickStart(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Quick start\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got []string
	for _, fence := range regexp.MustCompile(`(?s)\n(?:~~~|`+"```"+`) ?sh\n(.*?)\n(?:~~~|`+"```"+`)\n`).FindAllStringSubmatch(section, -1) {
		got = append(got, strings.Split(fence[1], "\n")...)
	}

	dns, http := ports(t)
	r := start(t, filepath.Join(t.TempDir(), "run"), dns, http)
	standard := strings.NewReplacer(":"+http+"/", ":8053/", " "+dns+" ", " 1053 ")
	want := []string{"make run", standard.Replace(r.lines[0]), standard.Replace(r.lines[1]), "make test"}
	if !slices.Equal(got, want) {
		t.Errorf("the README's quick start has\n%s\nbut these are what make run prints, and tests run:\n%s",
			strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if out := output(t, "make", "-C", "../..", "-n", "run"); !strings.Contains(out, `scripts/run.sh "run"`) {
		t.Errorf("make run does not call run.sh on the directory run:\n%s", out)
	}
	text, err := os.ReadFile("../../scripts/run.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range []string{"${DNS_PORT:-1053}", "${HTTP_PORT:-8053}"} {
		if !strings.Contains(string(text), port) {
			t.Errorf("run.sh does not have %s", port)
		}
	}
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	dns, http := ports(t)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := strconv.Itoa(busy.Addr().(*net.TCPAddr).Port)

	tests := []struct {
		name, dns, http string
		file, text      string // written before the start
		want            string
	}{
		{name: "the DNS port is in use", dns: taken, http: http, want: "port " + taken + " of 127.0.0.1 is in use"},
		{name: "the HTTP port is in use", dns: dns, http: taken, want: "port " + taken + " of 127.0.0.1 is in use"},
		{name: "the policy does not parse", dns: dns, http: http, file: "policy", text: "tokn x\n", want: "policy:1"},
		{name: "the Corefile is one's own", dns: dns, http: http, file: "Corefile", text: "example.org {\n}\n", want: "start it yourself"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(dir, tc.file), []byte(tc.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := script(t, dir, tc.dns, tc.http).CombinedOutput()
			if err == nil || !strings.Contains(string(out), tc.want) {
				t.Errorf("got %v and\n%s\nwant an error that says %q", err, out, tc.want)
			}
		})
	}
}

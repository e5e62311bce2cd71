package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// straced says which fault the kernel is made to show, in strace's words: the
// calls, "inject" without them, and which of them is hit. Each thread of the
// program counts for itself.
type straced struct {
	calls  string // "fdatasync,pwrite64"
	effect string // "error=EIO", "signal=KILL", "delay_enter=300000"
	when   string // "3", "3+", "" for every one
}

func (s straced) String() string {
	return strings.TrimSpace(s.calls + " " + s.effect + " " + s.when)
}

func (s straced) arguments(output string) []string {
	inject := "inject=" + s.calls + ":" + s.effect
	if s.when != "" {
		inject += ":when=" + s.when
	}
	return []string{"-f", "-o", output, "-e", "trace=" + s.calls, "-e", inject}
}

func needStrace(t testing.TB) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is needed to make system calls fail")
		}
		t.Skip("strace is needed to make system calls fail")
	}
	return strace
}

// launchFaulty starts the program with a fault from its first instruction on. The
// tracer is its grandchild, so that signals go to the program itself. Not with
// --seccomp-bpf, which is faster, but loses signals.
func (p *process) launchFaulty(s straced) {
	p.t.Helper()
	p.launch(append([]string{needStrace(p.t), "-D"}, s.arguments("/dev/null")...)...)
}

// injection is a fault of a running process.
type injection struct {
	t      testing.TB
	cmd    *exec.Cmd
	output string
}

// inject attaches a fault to the running process. Calls are counted from now on.
func (p *process) inject(s straced) *injection {
	p.t.Helper()
	in := &injection{t: p.t, output: filepath.Join(p.dir, "strace.out")}
	_ = os.Remove(in.output)
	in.cmd = exec.Command(needStrace(p.t), append(s.arguments(in.output), "-p", fmt.Sprint(p.cmd.Process.Pid))...)
	said := &logBuffer{grew: make(chan struct{}, 1)}
	in.cmd.Stderr = said
	if err := in.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	if !said.await("attached", 1, 10*time.Second) {
		in.end()
		p.t.Fatalf("strace does not attach: %s", said)
	}
	// It says so before it has taken hold of the last thread.
	for _, task := range p.tasks() {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			status, err := os.ReadFile(p.proc("task/" + task + "/status"))
			if err != nil || !bytes.Contains(status, []byte("\nTracerPid:\t0\n")) {
				break
			}
			if time.Now().After(deadline) {
				in.end()
				p.t.Fatalf("strace does not take hold of thread %s", task)
			}
		}
	}
	p.t.Cleanup(in.end)
	return in
}

func (p *process) tasks() []string {
	entries, err := os.ReadDir(p.proc("task"))
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// end lets go of the process, which runs on without the fault.
func (in *injection) end() {
	if in.cmd.ProcessState == nil {
		_ = in.cmd.Process.Signal(syscall.SIGTERM)
		_ = in.cmd.Wait()
	}
}

// hits counts the calls that were tampered with; for after end.
func (in *injection) hits() int {
	in.t.Helper()
	b, err := os.ReadFile(in.output)
	if err != nil {
		in.t.Fatal(err)
	}
	return bytes.Count(b, []byte("(INJECTED)")) + bytes.Count(b, []byte("(DELAYED)"))
}

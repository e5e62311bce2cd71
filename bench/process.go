package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/coredns-ddns/ddns/internal/loopback"
)

// launch is how one server is started on loopback.
type launch struct {
	argv []string
	dns  string // address it answers DNS on; empty: none
	http string
	// update makes one client; a client sends update k to host and waits for the
	// yes. nil: takes no updates.
	update  func() (client, error)
	updateD func() (client, error) // the same by DNS UPDATE, where update is HTTP
	disk    []string               // what it keeps on disk
}

// server is a running one.
type server struct {
	peer  *peer
	hosts int
	launch
	dir    string
	cmd    *exec.Cmd
	done   chan struct{}
	err    error
	loaded time.Duration // from exec to the first right answer about the last host
	next   int           // number of the next update: each changes its host
}

// pin binds this process to the load's core: the thread first, then by a second process
// all threads and what GOMAXPROCS is made from. It returns in the second process
// alone.
func pin(core int) error {
	const marker = "DDNS_BENCH_PINNED"
	if os.Getenv(marker) != "" {
		return nil
	}
	runtime.LockOSThread()
	if err := affinity(core); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Ahead of whatever else runs here, load and servers alike. Not everybody may.
	unix.Setpriority(unix.PRIO_PROCESS, 0, -15)
	restore := preferSession()
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = os.Stdin, os.Stdout, os.Stderr, append(os.Environ(), marker+"=1")
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if err = cmd.Start(); err == nil {
		go func() {
			for s := range signals {
				_ = cmd.Process.Signal(s)
			}
		}()
		err = cmd.Wait()
	}
	restore()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		os.Exit(code)
	}
	os.Exit(1) // by a signal
	return nil
}

// preferSession raises the priority of the session that this was started in, shells
// and all (sched(7), "The autogroup feature"), and returns what undoes it: whatever is
// started there later would be preferred as well.
func preferSession() (restore func()) {
	const file = "/proc/self/autogroup"
	before, err := os.ReadFile(file)
	if err != nil {
		return func() {}
	}
	_, nice, _ := strings.Cut(strings.TrimSpace(string(before)), " nice ")
	_ = os.WriteFile(file, []byte("-15"), 0)
	return func() { _ = os.WriteFile(file, []byte(nice), 0) }
}

func affinity(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}

// startOn starts a command bound to one core: a child inherits the affinity of the
// thread that forks it.
func startOn(core, own int, cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := affinity(core); err != nil {
		return err
	}
	defer affinity(own)
	return cmd.Start()
}

// start starts a peer with n hosts and waits until it answers for the last one.
func (b *bench) start(p *peer, n int) (*server, error) {
	b.started++
	dir := filepath.Join(b.dir, fmt.Sprintf("%02d-%s-%d", b.started, p.name, n))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	l, err := p.prepare(b, dir, n)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", p.name, err)
	}
	s := &server{peer: p, hosts: n, launch: *l, dir: dir}
	return s, b.run(s)
}

// run starts the process of a prepared server.
func (b *bench) run(s *server) error {
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: 0}
	begun := time.Now()
	if err := startOn(b.serverCore, b.loadCore, cmd); err != nil {
		return err
	}
	s.cmd, s.done = cmd, make(chan struct{})
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	b.running = append(b.running, s)
	for {
		if s.answers() {
			s.loaded = time.Since(begun)
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s ended: %v\n%s", s.peer.name, s.err, s.lastLines())
		default:
		}
		if time.Since(begun) > 2*time.Minute {
			return fmt.Errorf("%s does not answer after two minutes\n%s", s.peer.name, s.lastLines())
		}
	}
}

func (s *server) lastLines() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return string(text[max(0, len(text)-1500):])
}

// answers reports whether the server gives the right answer about its last host.
func (s *server) answers() bool {
	if s.dns == "" {
		c, err := net.DialTimeout("tcp", s.http, time.Second)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			return false
		}
		c.Close()
		return true
	}
	q := question{host: s.hosts - 1}
	if s.peer.noData {
		q.host = 0
	}
	return s.askOnce(q, 20*time.Millisecond) == nil
}

// stop ends the server and waits for it.
func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.done
		return errors.New(s.peer.name + " did not end by SIGTERM within 30 seconds")
	}
	s.cmd = nil
	return nil
}

// resident is the memory of the server and its children in octets: what belongs
// to it alone, and pages of files.
func (s *server) resident() (anon, file int64) {
	for _, pid := range family(s.cmd.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		anon += statusField(string(text), "RssAnon") + statusField(string(text), "RssShmem")
		file += statusField(string(text), "RssFile")
	}
	return anon, file
}

var kilobytes = regexp.MustCompile(`(?m)^(\w+):\s+(\d+) kB$`)

func statusField(text, field string) int64 {
	for _, m := range kilobytes.FindAllStringSubmatch(text, -1) {
		if m[1] == field {
			n, _ := strconv.ParseInt(m[2], 10, 64)
			return n << 10
		}
	}
	return 0
}

func family(pid int) []int {
	pids := []int{pid}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			pids = append(pids, family(child)...)
		}
	}
	return pids
}

// diskUse is the size of what the server keeps, in octets.
func (s *server) diskUse() int64 {
	var sum int64
	for _, pattern := range s.disk {
		files, _ := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() {
				sum += info.Size()
			}
		}
	}
	return sum
}

// freePort is a port of 127.0.0.1 that nobody uses, by TCP and UDP.
func freePort() (string, error) {
	address, err := loopback.Address()
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	return port, err
}

package hooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// umask is what every hook starts with.
const umask = 0o077

// A process is a started command that has not been reaped. Until release it stays
// a zombie when it ends, so that its number, which is that of its session and
// its process group, cannot mean another process.
type process struct {
	pid     int
	start   uint64           // its start time in clock ticks: with pid it names one process for ever
	exited  chan struct{}    // closed when it has ended
	free    chan struct{}    // closed by release
	reaped  chan struct{}    // closed when it is gone
	state   *os.ProcessState // readable once reaped is closed
	waitErr error            // the same
	handle  *os.Process      // owned by the thread
}

// release lets the kernel forget the process, and returns when it has.
func (p *process) release() {
	close(p.free)
	<-p.reaped
}

// spawn starts argv on a thread of its own, which lives as long as the process.
//
// Go's SysProcAttr has no field for no_new_privs, the umask, or the ambient,
// inheritable and bounding capabilities. They belong to a thread (the umask does
// once the thread has a CLONE_FS of its own) and a child inherits them from the
// thread that forks it. So the thread takes them on, forks, and is thrown away:
// the runtime ends the thread of a goroutine that returns while locked. No second
// exec of this binary is needed. That the thread lives until the child is reaped also
// makes Pdeathsig mean what it says, the death of this process: the kernel sends it
// when the forking thread dies (go.dev/issue/27505).
func spawn(argv []string, attr *os.ProcAttr, keepCaps bool) (*process, error) {
	type result struct {
		p   *process
		err error
	}
	started := make(chan result)
	go onOwnThread(func() {
		p, err := fork(argv, attr, keepCaps)
		started <- result{p, err}
		if err != nil {
			return
		}
		awaitExit(p.pid)
		close(p.exited)
		<-p.free
		p.state, p.waitErr = p.handle.Wait()
		forgetLeader(p.pid)
		close(p.reaped)
	})
	r := <-started
	return r.p, r.err
}

// onOwnThread runs f on a thread that ends with it, and never on the main thread,
// whose attributes are those that /proc shows for the process.
func onOwnThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return // locked: the runtime ends the thread
	}
	// While this goroutine holds the main thread, another cannot get it.
	done := make(chan struct{})
	go func() {
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

func fork(argv []string, attr *os.ProcAttr, keepCaps bool) (*process, error) {
	if err := lowerThread(keepCaps); err != nil {
		return nil, err
	}
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	enter, leave := leaderGate()
	enter()
	defer leave()
	uid := ownUID()
	if c := attr.Sys.Credential; c != nil {
		uid = c.Uid
	}
	var h *os.Process
	err := limitTasks(uid, func() (pid int, err error) {
		if h, err = os.StartProcess(argv[0], argv, attr); err != nil {
			return 0, err
		}
		return h.Pid, nil
	})
	if err != nil {
		return nil, err
	}
	st, err := readStat(h.Pid)
	if err != nil {
		// Not even a zombie can be missing here; without its start time it could
		// not be told from others.
		h.Kill()
		h.Wait()
		return nil, fmt.Errorf("reading the start time of process %d: %w", h.Pid, err)
	}
	p := &process{
		pid: h.Pid, start: st.start, handle: h,
		exited: make(chan struct{}), free: make(chan struct{}), reaped: make(chan struct{}),
	}
	addLeader(leader{pid: p.pid, start: p.start, uid: uid})
	return p, nil
}

// lowerThread gives up, on this thread and so for the child, every way to more
// rights.
func lowerThread(keepCaps bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	// Without its own copy the umask would change for the whole process. Some
	// containers forbid it: Guarantees says so.
	if unix.Unshare(unix.CLONE_FS) == nil {
		unix.Umask(umask)
	}
	if keepCaps {
		return nil
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("clearing the ambient capabilities: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	// Dropping from the bounding set is itself a privilege; without it there is
	// nothing left that no_new_privs would not stop.
	for c := uintptr(0); c <= 63; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			break
		}
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("clearing the inheritable capabilities: %w", err)
	}
	return nil
}

// closeOnExec marks every descriptor above 2. Go opens all of its own so; the ones
// that this process was started with, or that C code opened, may not be.
func closeOnExec() error {
	err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	list, rerr := filepath.Glob("/proc/self/fd/*")
	if rerr != nil || len(list) == 0 {
		return fmt.Errorf("marking descriptors close-on-exec: %w", err)
	}
	for _, name := range list {
		if fd, err := strconv.Atoi(filepath.Base(name)); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// awaitExit returns when the child has ended, and leaves it a zombie.
func awaitExit(pid int) {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// canUmask reports whether a thread may have a umask of its own.
func canUmask() (err error) {
	done := make(chan struct{})
	go onOwnThread(func() {
		defer close(done)
		err = unix.Unshare(unix.CLONE_FS)
	})
	<-done
	return err
}

package hooks

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroupTree is a control group (version 2) with one run in it. The command is
// born in it (CLONE_INTO_CGROUP), so nothing it does comes before, and cgroup.kill
// ends all of it at once, forks in flight too.
type cgroupTree struct {
	dir  string   // where it is mounted
	path string   // what /proc/PID/cgroup calls it
	fd   *os.File // the directory
	p    *process
}

// leaf makes an empty control group.
func (b *cgroupBase) leaf() (*cgroupTree, error) {
	name := "run-" + strconv.FormatUint(b.next.Add(1), 10)
	t := &cgroupTree{dir: filepath.Join(b.dir, name), path: strings.TrimSuffix(b.path, "/") + "/" + name}
	if err := os.Mkdir(t.dir, 0o755); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	fd, err := os.OpenFile(t.dir, unix.O_DIRECTORY|unix.O_RDONLY, 0)
	if err != nil {
		os.Remove(t.dir)
		return nil, fmt.Errorf("opening a control group: %w", err)
	}
	t.fd = fd
	return t, nil
}

func (t *cgroupTree) attach(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD = true
	attr.CgroupFD = int(t.fd.Fd())
}

func (t *cgroupTree) started(p *process) { t.p = p }

func (t *cgroupTree) signal(sig syscall.Signal) {
	for _, pid := range pidsIn(t.dir) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		// Held, it is still the one that was listed, or it is no longer in there.
		if inCgroup(pid, t.path) {
			unix.PidfdSendSignal(fd, sig, nil, 0)
		}
		unix.Close(fd)
	}
}

func (t *cgroupTree) empty() bool {
	b, err := os.ReadFile(filepath.Join(t.dir, "cgroup.events"))
	return err == nil && bytes.Contains(b, []byte("populated 0"))
}

func (t *cgroupTree) kill(deadline time.Time) (any bool, err error) {
	pause := 200 * time.Microsecond
	for !t.empty() {
		if !any {
			any = true
			if err := os.WriteFile(filepath.Join(t.dir, "cgroup.kill"), []byte("1"), 0); err != nil {
				return any, fmt.Errorf("killing the control group of the hook: %w", err)
			}
		}
		if time.Now().After(deadline) {
			var live []stat
			for _, pid := range pidsIn(t.dir) {
				live = append(live, stat{pid: pid})
			}
			return any, stuck(live)
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
	// What has left the group is dying, and becomes a zombie of this process when
	// its parent is gone too.
	for pause = 200 * time.Microsecond; reapOrphans(t.path) > 0 && time.Now().Before(deadline); {
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
	return any, nil
}

// close removes the group and those that the command made in it.
func (t *cgroupTree) close() {
	t.fd.Close()
	removeCgroup(t.dir)
}

// pidsIn lists the processes of a control group and of those below it.
func pidsIn(dir string) []int {
	var pids []int
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		b, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		if err != nil {
			return nil
		}
		for _, w := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(w); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// removeCgroup removes an empty control group, the innermost first.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	// The last process may be on its way out for a moment after "populated 0".
	for range 50 {
		if err = unix.Rmdir(dir); err != unix.EBUSY {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return err
}

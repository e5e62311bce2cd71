package hooks

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A cgroupBase is the control group of one Runner, below that of this process; the
// groups of its runs are made in it.
type cgroupBase struct {
	dir  string
	path string // the same in the words of /proc/PID/cgroup
	next atomic.Uint64
}

const basePrefix = "ddns-hooks."

var baseNumber atomic.Uint64

// newCgroupBase finds out whether runs can have control groups here, by making
// one and forking into it. The error says what is in the way.
func newCgroupBase() (*cgroupBase, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dir, name, err := ownCgroup(string(own), string(mounts))
	if err != nil {
		return nil, err
	}
	self, err := readStat(os.Getpid())
	if err != nil {
		return nil, err
	}
	sweep(dir)
	base := fmt.Sprintf("%s%d-%d.%d", basePrefix, self.pid, self.start, baseNumber.Add(1))
	b := &cgroupBase{dir: filepath.Join(dir, base), path: path.Join(name, base)}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return nil, fmt.Errorf("no control group can be made: %w", err)
	}
	if err := b.probe(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// probe forks into a leaf; the exec after it is meant to fail.
func (b *cgroupBase) probe() error {
	t, err := b.leaf()
	if err != nil {
		return err
	}
	defer t.close()
	if _, err := os.Stat(filepath.Join(t.dir, "cgroup.kill")); err != nil {
		return fmt.Errorf("the kernel has no cgroup.kill: %w", err)
	}
	if f, err := os.OpenFile(filepath.Join(t.dir, "cgroup.kill"), os.O_WRONLY, 0); err != nil {
		return err
	} else {
		f.Close()
	}
	attr := &syscall.SysProcAttr{}
	t.attach(attr)
	p, err := os.StartProcess("/nonexistent/ddns-hook-probe", []string{"probe"}, &os.ProcAttr{Env: []string{}, Sys: attr})
	if err == nil {
		p.Kill()
		p.Wait()
		return nil
	}
	if errors.Is(err, unix.ENOENT) {
		return nil // born in the group, and only then found nothing to run
	}
	return fmt.Errorf("nothing can be started in a control group: %w", errors.Unwrap(err))
}

func (b *cgroupBase) close() { removeCgroup(b.dir) }

// ownCgroup returns where the version 2 control group of this process is mounted,
// and its name, from the words of /proc/self/cgroup and /proc/self/mountinfo. With
// version 1 beside it ("hybrid") it is mounted elsewhere, so nothing is assumed.
func ownCgroup(own, mounts string) (dir, name string, err error) {
	found := false
	for line := range strings.Lines(own) {
		if name, found = strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			break
		}
	}
	if !found {
		return "", "", errors.New("this process is in no control group of version 2")
	}
	sc := bufio.NewScanner(strings.NewReader(mounts))
	for sc.Scan() {
		// 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
		left, right, ok := strings.Cut(sc.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 1 || r[0] != "cgroup2" {
			continue
		}
		root, point := unescape(l[3]), unescape(l[4])
		below, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/"))
		if !ok || below != "" && below[0] != '/' || strings.Contains(name, "/..") {
			continue // another part of the hierarchy is mounted here
		}
		return filepath.Join(point, below), name, nil
	}
	return "", "", errors.New("the control groups of version 2 are not mounted")
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// sweep ends what an earlier process that was killed has left in its control
// groups: a hook of it must not run beside the one that is started again.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), basePrefix)
		if !ok {
			continue
		}
		var pid int
		var start, n uint64
		if c, err := fmt.Sscanf(rest, "%d-%d.%d", &pid, &start, &n); err != nil || c != 3 {
			continue
		}
		if s, err := readStat(pid); err == nil && s.start == start && !s.dead() {
			continue
		}
		old := filepath.Join(dir, e.Name())
		os.WriteFile(filepath.Join(old, "cgroup.kill"), []byte("1"), 0)
		deadline := time.Now().Add(time.Second)
		for len(pidsIn(old)) > 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		removeCgroup(old)
	}
}

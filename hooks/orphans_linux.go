package hooks

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Orphans of hooks are adopted by this process (PR_SET_CHILD_SUBREAPER): they can
// be found again, and their zombies do not depend on an init that reaps. That is a
// property of the whole process, so is what is kept here.
//
// Other children of this process are never touched: they were not started in a
// session of their own, or they are older than the hook.
var adoption struct {
	gate   sync.RWMutex // held for reading while a leader is started and not yet in leaders
	ending sync.Mutex   // held while a run makes sure that it has left no orphan

	mu  sync.Mutex
	all map[int]leader // guarded by mu

	once sync.Once
	err  error
}

// A leader is the command of a run, the first process of its session.
type leader struct {
	pid   int
	start uint64
	uid   uint32
	ended bool // it has made sure that no orphan is its
}

// adoptOrphans makes this process the parent of what its descendants leave.
func adoptOrphans() error {
	adoption.once.Do(func() {
		adoption.err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	})
	return adoption.err
}

func leaderGate() (enter, leave func()) { return adoption.gate.RLock, adoption.gate.RUnlock }

func addLeader(l leader) {
	adoption.mu.Lock()
	defer adoption.mu.Unlock()
	if adoption.all == nil {
		adoption.all = make(map[int]leader)
	}
	adoption.all[l.pid] = l
}

// endLeader notes that a run has no claim to orphans any more.
func endLeader(pid int) {
	adoption.mu.Lock()
	defer adoption.mu.Unlock()
	if l, ok := adoption.all[pid]; ok {
		l.ended = true
		adoption.all[pid] = l
	}
}

func forgetLeader(pid int) {
	adoption.mu.Lock()
	defer adoption.mu.Unlock()
	delete(adoption.all, pid)
}

// leaders returns those that run. Every process seen before the call that is a
// leader is among them, or has been reaped.
func leaders() map[int]leader {
	adoption.gate.Lock()
	defer adoption.gate.Unlock()
	adoption.mu.Lock()
	defer adoption.mu.Unlock()
	list := make(map[int]leader, len(adoption.all))
	for pid, l := range adoption.all {
		list[pid] = l
	}
	return list
}

// orphan reports whether s was left to this process by something it had started:
// a child in a session that is not this one's, and not a leader.
func orphan(s stat, known map[int]leader, self, session int) bool {
	_, is := known[s.pid]
	return !is && s.ppid == self && s.session != session
}

// reapOrphans reaps the zombies among the adopted and returns how many adopted
// are left in the control group, "" for any.
func reapOrphans(cgroup string) int {
	self, session := os.Getpid(), ownSession()
	list := children(self)
	known := leaders()
	left := 0
	for _, s := range list {
		if !orphan(s, known, self, session) {
			continue
		}
		inside := cgroup == "" || inCgroup(s.pid, cgroup)
		if s.dead() && reap(s.pid, s.start) {
			continue
		}
		if inside {
			left++
		}
	}
	return left
}

// children returns the children of this process: from the short list that the
// kernel keeps per thread, or from everything where it keeps none.
func children(self int) []stat {
	var list []stat
	files, _ := filepath.Glob("/proc/self/task/*/children")
	if len(files) > 0 {
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				continue
			}
			for _, w := range strings.Fields(string(b)) {
				pid, err := strconv.Atoi(w)
				if err != nil {
					continue
				}
				if s, err := readStat(pid); err == nil && s.ppid == self {
					list = append(list, s)
				}
			}
		}
		return list
	}
	all, err := processes()
	if err != nil {
		return nil
	}
	for _, s := range all {
		if s.ppid == self {
			list = append(list, s)
		}
	}
	return list
}

// inCgroup reports whether pid, which may be a zombie, was in the control group.
func inCgroup(pid int, cgroup string) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			p = strings.TrimSuffix(strings.TrimSuffix(p, "\n"), " (deleted)")
			return p == cgroup || strings.HasPrefix(p, cgroup+"/")
		}
	}
	return false
}

func ownSession() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return sid
}

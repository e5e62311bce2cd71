package hooks

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A sessionTree finds the processes of a run without a control group: those of the
// leader's session or process group, their descendants, and the adopted orphans
// that nobody but this run can have left.
type sessionTree struct {
	uid     uint32
	self    int
	session int // of this process
	p       *process
	known   map[int]uint64 // every process ever found, with its start time
}

func newSessionTree(uid uint32) *sessionTree {
	return &sessionTree{uid: uid, self: os.Getpid(), session: ownSession(), known: make(map[int]uint64)}
}

func (t *sessionTree) attach(*syscall.SysProcAttr) {}

func (t *sessionTree) started(p *process) {
	t.p = p
	t.known[p.pid] = p.start
}

func (t *sessionTree) close() {}

// find returns the living processes of the run, and reaps its adopted zombies.
func (t *sessionTree) find() []stat {
	all, err := processes()
	if err != nil {
		return nil
	}
	runs := leaders()
	ours := make(map[int]bool) // what left said of each
	member := func(s stat) bool {
		if start, ok := t.known[s.pid]; ok && start == s.start {
			return true
		}
		if s.session == t.p.pid || s.pgrp == t.p.pid {
			return true
		}
		if start, ok := t.known[s.ppid]; ok && all[s.ppid].start == start {
			return true
		}
		is, asked := ours[s.pid]
		if !asked {
			is = t.left(s, runs)
			ours[s.pid] = is
		}
		return is
	}
	// A child may have a smaller number than its parent, so until nothing is new.
	for found := true; found; {
		found = false
		for pid, s := range all {
			if pid == t.self || s.start < t.p.start {
				continue
			}
			if start, ok := t.known[pid]; ok && start == s.start {
				continue
			}
			if member(s) {
				t.known[pid] = s.start
				found = true
			}
		}
	}
	var live []stat
	for pid, start := range t.known {
		s, ok := all[pid]
		switch {
		case !ok || s.start != start:
			if pid != t.p.pid {
				delete(t.known, pid) // gone: its number may be another's
			}
		case !s.dead():
			live = append(live, s)
		case s.ppid == t.self && pid != t.p.pid:
			reap(pid, start)
		}
	}
	return live
}

// left reports whether s is an orphan of this run: adopted, of its user, younger
// than its leader, and of no other run that still goes on.
func (t *sessionTree) left(s stat, runs map[int]leader) bool {
	if s.start < t.p.start || !orphan(s, runs, t.self, t.session) {
		return false
	}
	if uid, ok := realUID(s.pid); !ok || uid != t.uid {
		return false
	}
	for _, other := range runs {
		if other.pid != t.p.pid && other.uid == t.uid && other.start <= s.start && !other.ended {
			return false // either's; the last of them to end takes it
		}
	}
	return true
}

func (t *sessionTree) signal(sig syscall.Signal) {
	for _, s := range t.find() {
		signalProcess(s.pid, s.start, sig)
	}
}

func (t *sessionTree) empty() bool { return len(t.find()) == 0 }

// last looks once more, and if nothing is found gives up the claim of this run to
// orphans. One run at a time does so: of two that end together and could both
// have left an orphan, the second must see that the first no longer takes it.
func (t *sessionTree) last() []stat {
	adoption.ending.Lock()
	defer adoption.ending.Unlock()
	live := t.find()
	if len(live) == 0 {
		endLeader(t.p.pid)
	}
	return live
}

func (t *sessionTree) kill(deadline time.Time) (any bool, err error) {
	stopped := make(map[int]uint64)
	pause := time.Millisecond
	for pass := 0; ; pass++ {
		live := t.find()
		if len(live) == 0 {
			if live = t.last(); len(live) == 0 {
				return any, nil
			}
		}
		any = true
		// A stopped process neither forks nor ends, so its children stay its
		// children until all are found. Then all are killed.
		fresh := false
		for _, s := range live {
			if stopped[s.pid] != s.start {
				stopped[s.pid] = s.start
				fresh = true
				if pass < 20 {
					signalProcess(s.pid, s.start, unix.SIGSTOP)
				}
			}
		}
		if fresh && pass < 20 {
			continue
		}
		for _, s := range live {
			signalProcess(s.pid, s.start, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return any, stuck(live)
		}
		time.Sleep(pause)
		pause = min(2*pause, 50*time.Millisecond)
	}
}

var errStuck = errors.New("could not be killed")

func stuck(live []stat) error {
	var pids []int
	for _, s := range live {
		pids = append(pids, s.pid)
	}
	slices.Sort(pids)
	return fmt.Errorf("%d processes of the hook %w and are still there: %v", len(pids), errStuck, pids[:min(len(pids), 10)])
}

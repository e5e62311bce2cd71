package hooks

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// A tree is every process of one run: its leader and what that started, however
// it tries to get away. Its methods are called by one goroutine at a time.
type tree interface {
	// attach is called before the start.
	attach(attr *syscall.SysProcAttr)
	// started is called after it, with the unreaped leader.
	started(p *process)
	// signal sends sig to all.
	signal(sig syscall.Signal)
	// empty reports whether nothing is left but the leader's zombie.
	empty() bool
	// kill kills all until nothing is left, and reports whether there was
	// anything. An error means that something was still there at the deadline.
	kill(deadline time.Time) (any bool, err error)
	// close is called when nothing is left, or nothing was started.
	close()
}

// A forge makes trees of the best kind that this machine can do.
type forge struct {
	base    *cgroupBase // nil when there are no control groups
	missing Guarantees
}

func newForge(processGroups bool) forge {
	var f forge
	var err error
	if processGroups {
		err = errors.New("it was told not to")
	} else {
		f.base, err = newCgroupBase()
	}
	if err != nil {
		f.missing.Tree = "hooks are not in a control group (" + err.Error() + "): their processes are found by session, parent and user, " +
			"so one that hides from all three may live until the last hook of its user has ended"
	}
	if err := adoptOrphans(); err != nil {
		f.missing.Tree += "; orphans cannot be adopted (" + err.Error() + ")"
	}
	if err := canSwitchUsers(); err != nil {
		f.missing.Users = "hooks cannot be run as another user: this process " + err.Error()
	}
	if os.Geteuid() == 0 {
		f.missing.Isolation = ""
	} else {
		f.missing.Isolation = "a hook that runs as the user of this process can read its memory and end it"
	}
	if err := canUmask(); err != nil {
		f.missing.Umask = "hooks start with the umask of this process (" + err.Error() + ")"
	}
	return f
}

func (f forge) guarantees() Guarantees { return f.missing }

func (f forge) close() {
	reapOrphans("")
	if f.base != nil {
		f.base.close()
	}
}

// plant makes a tree for a command that runs as id.
func (f forge) plant(id Identity) (tree, error) {
	if f.base == nil {
		return newSessionTree(id.UID), nil
	}
	// Who may write this process's control groups can walk out of them: then what
	// left is looked for as well.
	if id.UID == 0 || id.UID == ownUID() {
		leaf, err := f.base.leaf()
		if err != nil {
			return nil, err
		}
		return &bothTrees{leaf, newSessionTree(id.UID)}, nil
	}
	return f.base.leaf()
}

// bothTrees is a control group, and the search for what has left it.
type bothTrees struct {
	group   *cgroupTree
	session *sessionTree
}

func (t *bothTrees) attach(attr *syscall.SysProcAttr) { t.group.attach(attr) }

func (t *bothTrees) started(p *process) {
	t.group.started(p)
	t.session.started(p)
}

func (t *bothTrees) signal(sig syscall.Signal) { t.session.signal(sig) }

func (t *bothTrees) empty() bool { return t.group.empty() && t.session.empty() }

func (t *bothTrees) kill(deadline time.Time) (bool, error) {
	// The search first stops what it finds, so that parents still lead to children.
	a, err1 := t.session.kill(deadline)
	b, err2 := t.group.kill(deadline)
	return a || b, errors.Join(err1, err2)
}

func (t *bothTrees) close() { t.group.close() }

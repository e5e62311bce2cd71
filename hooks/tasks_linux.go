package hooks

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// taskRoom is how many processes and threads a hook may have, beside those that its
// user has when it starts. Without a limit one that forks for ever takes every task
// that the host, or the unit of this process, may have; and a Go program that
// cannot make a thread ends at once. Root is not bound by it (setrlimit(2),
// RLIMIT_NPROC).
const taskRoom = 128

// taskGate is held while this process has the limit of its child.
var taskGate sync.Mutex

// limitTasks has start fork a child of that user, whose pid it returns, with a limit
// of tasks. Go has no field for it, so this process takes the limit on for the
// moment, which is nothing to it when it is root; another takes only what was
// started, a moment later.
func limitTasks(uid uint32, start func() (pid int, err error)) error {
	if uid == 0 {
		_, err := start()
		return err
	}
	limit := uint64(tasksOf(uid) + taskRoom)
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil || own.Cur <= limit {
		_, err := start()
		return err
	}
	if ownUID() == 0 && initialUsers() {
		taskGate.Lock()
		defer taskGate.Unlock()
		if unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: own.Max}) == nil {
			defer unix.Setrlimit(unix.RLIMIT_NPROC, &own)
		}
	}
	pid, err := start()
	if err == nil {
		// That the child cannot raise it again takes a right that we may not have.
		_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: limit}, nil)
	}
	return err
}

// tasksOf counts the processes and threads of a user.
func tasksOf(uid uint32) (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		field := func(key string) (uint64, bool) {
			_, rest, _ := bytes.Cut(b, []byte("\n"+key+":"))
			f := bytes.Fields(rest)
			if len(f) == 0 {
				return 0, false
			}
			v, err := strconv.ParseUint(string(f[0]), 10, 32)
			return v, err == nil
		}
		if real, ok := field("Uid"); ok && uint32(real) == uid {
			threads, _ := field("Threads")
			n += int(max(threads, 1))
		}
	}
	return n
}

// initialUsers reports whether user 0 here is the host's: the root of a user
// namespace is bound by RLIMIT_NPROC like everybody else.
func initialUsers() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(b)), " ") == "0 0 4294967295"
}

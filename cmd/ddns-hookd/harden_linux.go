package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// harden gives up what neither this process nor a hook needs.
func harden() error {
	unix.Umask(0o077)
	// A core dump of a hook would hold the events of others' names.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("switching core dumps off: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil // without privilege a process needs its own /proc files, which this takes away
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("closing this process to debuggers: %w", err)
	}
	return nil
}

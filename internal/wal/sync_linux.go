package wal

import (
	"os"
	"syscall"
)

// fdatasync makes what was written durable and leaves the file's times alone.
func fdatasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}

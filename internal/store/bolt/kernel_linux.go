package bolt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// What the kernel is told about the file beyond what bbolt tells it.

// fOFDSetLock is F_OFD_SETLK of fcntl(2), which package syscall does not name.
const fOFDSetLock = 37

// lock keeps other processes of this program away from path until the returned
// file is closed. It stands beside bbolt's own lock, which is let go for a moment
// when the file is opened again, and does not touch it.
func lock(path string, timeout time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		whole := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart}
		err := syscall.FcntlFlock(f.Fd(), fOFDSetLock, &whole)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES):
			// A file system without such locks: bbolt's has to do.
			return f, nil
		case time.Now().After(deadline):
			f.Close()
			return nil, inUse(path)
		}
	}
}

// writable says whether files can be made in a directory.
func writable(dir string) error {
	const wOK = 2
	return syscall.Access(dir, wOK)
}

// readAhead says that a mapping is about to be read once from end to end.
func readAhead(data []byte) {
	_ = syscall.Madvise(data, syscall.MADV_SEQUENTIAL)
	_ = syscall.Madvise(data, syscall.MADV_WILLNEED)
}

// unmapPages takes the pages of a mapping out of the process. They stay in the
// page cache and come back when touched, but no longer count as its memory.
func unmapPages(addr uintptr, size int64) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, addr, uintptr(size), syscall.MADV_DONTNEED)
}

// dropCache makes the next read come from the disk. After a failed sync the page
// cache holds what was to be written, marked as if it had been.
func dropCache(f *os.File) error {
	if err := f.Sync(); err != nil {
		return err
	}
	const dontNeed = 4 // POSIX_FADV_DONTNEED
	_, _, _ = syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, dontNeed, 0, 0)
	return nil
}

//go:build !linux

package bolt

import (
	"fmt"
	"os"
	"time"
)

// Where the calls of kernel_linux.go do not exist, bbolt's own lock is the only
// one, and the page cache is taken at its word.

func lock(path string, _ time.Duration) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	return f, nil
}

func writable(string) error { return nil }

func readAhead([]byte) {}

func unmapPages(uintptr, int64) {}

func dropCache(f *os.File) error { return f.Sync() }

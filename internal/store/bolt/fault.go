package bolt

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/coredns-ddns/ddns/internal/store"
)

// panicError is a panic of bbolt, or a fault of the mapping, as an error.
type panicError struct{ reason any }

func (p *panicError) Error() string {
	if err, ok := p.reason.(interface{ Addr() uintptr }); ok {
		return fmt.Sprintf("reading the file failed at address %#x: %v", err.Addr(), p.reason)
	}
	return fmt.Sprintf("the database library gave up: %v", p.reason)
}

// guard runs do and turns a panic into an error. A page of the mapping that the disk
// will not give is a signal, which without SetPanicOnFault ends the process
// whatever is deferred.
func guard(do func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		r := recover()
		if c, ok := r.(callersPanic); ok {
			panic(c.reason)
		}
		if r != nil {
			err = &panicError{r}
		}
	}()
	return do()
}

// callersPanic passes through guard as what it was.
type callersPanic struct{ reason any }

// call runs a caller's function inside guard; a panic of it is the caller's.
func call(do func()) {
	defer func() {
		if r := recover(); r != nil {
			panic(callersPanic{r})
		}
	}()
	do()
}

// noSpace are the errors of a file that may not grow. bbolt drops the number of
// some and keeps the text only.
var noSpace = []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}

// classify wraps what a failed commit returned, so that its caller can tell a
// full disk from a broken one.
func classify(err error) error {
	for _, n := range noSpace {
		if errors.Is(err, n) || strings.Contains(err.Error(), n.Error()) {
			return fmt.Errorf("%w: %w", store.ErrNoSpace, err)
		}
	}
	return err
}

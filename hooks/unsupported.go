//go:build !linux

package hooks

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
)

var errUnsupported = errors.New("hooks are run on Linux only, this is " + runtime.GOOS)

// Identity is who a command runs as.
type Identity struct {
	Name, Home string
}

type forge struct{}

func newForge(bool) forge { return forge{} }

func (forge) close() {}

func (forge) guarantees() Guarantees { return Guarantees{Run: errUnsupported.Error()} }

func (r *Runner) run(_ context.Context, _ Spec, done func()) Outcome {
	done()
	return notStarted(errUnsupported)
}

// Allows reports that hooks cannot be run here.
func (r *Runner) Allows(Spec) error { return errUnsupported }

type ucred struct {
	pid      int32
	uid, gid uint32
}

func peerCredentials(net.Conn) (ucred, error) { return ucred{}, errUnsupported }

// ListenUnix is for Linux only.
func ListenUnix(string, UnixOptions) (net.Listener, error) { return nil, errUnsupported }

// CheckFile is for Linux only.
func CheckFile(string) error { return errUnsupported }

func ownUID() uint32 { return uint32(os.Getuid()) }

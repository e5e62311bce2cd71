package hooks

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ListenUnix listens on a socket at an absolute path. A socket that a dead process
// left is replaced, one that a living process serves is not: the lock on PATH.lock,
// which ends with its process, tells them apart without a race.
func ListenUnix(path string, o UnixOptions) (net.Listener, error) {
	l, err := listenUnix(path, o)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	return l, nil
}

func listenUnix(path string, o UnixOptions) (net.Listener, error) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		return nil, errors.New("the path of a socket must be absolute and plain; abstract sockets have no owner and are refused")
	}
	if _, _, err := walk(filepath.Dir(path), ownUID()); err != nil {
		return nil, fmt.Errorf("somebody else could put a socket there: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("another process is serving it: %w", err)
	}
	l, err := bindUnix(path, o)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &unixListener{UnixListener: l, lock: lock}, nil
}

func bindUnix(path string, o UnixOptions) (*net.UnixListener, error) {
	if fi, err := os.Lstat(path); err == nil {
		if fi.Mode()&os.ModeSocket == 0 {
			return nil, errors.New("there is something that is not a socket")
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	var l *net.UnixListener
	var err error
	done := make(chan struct{})
	go onOwnThread(func() {
		defer close(done)
		// Nobody else may connect between bind and chmod.
		if unix.Unshare(unix.CLONE_FS) == nil {
			unix.Umask(0o177)
		}
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	})
	<-done
	if err != nil {
		return nil, err
	}
	if o.UID > 0 || o.GID > 0 {
		uid, gid := -1, -1
		if o.UID > 0 {
			uid = o.UID
		}
		if o.GID > 0 {
			gid = o.GID
		}
		if err := os.Chown(path, uid, gid); err != nil {
			l.Close()
			return nil, err
		}
	}
	mode := o.Mode.Perm()
	if mode == 0 {
		mode = 0o600
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// unixListener keeps the lock for as long as the socket. The lock file itself
// stays: removing it would let two processes lock two files of one name.
type unixListener struct {
	*net.UnixListener
	lock *os.File
	once sync.Once
}

func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	l.once.Do(func() { l.lock.Close() })
	return err
}

type ucred struct {
	pid      int32
	uid, gid uint32
}

// peerCredentials asks the kernel who is at the other end of a unix socket.
func peerCredentials(c net.Conn) (ucred, error) {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = w.NetConn()
	}
	u, ok := c.(syscall.Conn)
	if !ok {
		return ucred{}, fmt.Errorf("a %T does not say what its socket is", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return ucred{}, err
	}
	var got *unix.Ucred
	var gerr error
	if err := raw.Control(func(fd uintptr) {
		got, gerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return ucred{}, err
	}
	if gerr != nil {
		return ucred{}, gerr
	}
	return ucred{pid: got.Pid, uid: got.Uid, gid: got.Gid}, nil
}

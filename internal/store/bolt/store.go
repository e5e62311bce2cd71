package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/coredns-ddns/ddns/internal/store"
)

// Store is a store in one bbolt file with a write-ahead log. It implements store.Store.
type Store struct {
	path string
	opts Options

	mu     sync.Mutex
	lock   *os.File      // guarded by mu; held from Open to Close
	h      *handle       // guarded by mu; nil while the last one has failed
	cause  error         // guarded by mu; why there is no handle
	spent  *handle       // guarded by mu; the one that failed
	ending chan struct{} // guarded by mu; closed when the failed handle is
	closed bool          // guarded by mu

	failed      atomic.Bool // some write's outcome is unknown: backups end
	closing     atomic.Bool // Close has begun: backups end
	sinceUnmap  atomic.Int32
	mover       *mover
	bytes, free atomic.Int64 // for Stats
	logBytes    atomic.Int64 // for Stats
}

var _ store.Store = (*Store)(nil)

// Open opens the database at path, which is created when its directory exists. The
// structure of the whole file is checked first. Errors are sentences that name
// the file.
func Open(path string, o Options) (*Store, error) {
	if o.LockTimeout <= 0 {
		o.LockTimeout = defaultLockTimeout
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	// A later change of the working directory must not lead elsewhere.
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	exists, err := examine(path, o.Warn)
	if err != nil {
		return nil, err
	}
	if !exists {
		if err := create(path); err != nil {
			return nil, err
		}
	}
	s := &Store{path: path, opts: o, mover: newMover()}
	if s.lock, err = lock(path, o.LockTimeout); err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		s.lock.Close()
		return nil, err
	}
	s.use(s.h)
	go s.keepMoving()
	return s, nil
}

// start opens a locked file. It is called before the store is shared.
func (s *Store) start() (err error) {
	// A process that was killed may have written what it had not synced: it must not
	// be seen before it is durable.
	if err := s.lock.Sync(); err != nil {
		return fmt.Errorf("opening %s: syncing it: %w", s.path, err)
	}
	if err := dropLogCache(s.path); err != nil {
		return fmt.Errorf("opening %s: syncing its log: %w", s.path, err)
	}
	s.h, err = s.openHandle(s.lock)
	if errors.Is(err, errBlank) { // made by touch or mktemp: as good as none
		if err := initialise(s.path); err != nil {
			return err
		}
		s.h, err = s.openHandle(s.lock)
	}
	return err
}

// openHandle checks the file, of which f is a descriptor, and opens it.
func (s *Store) openHandle(f *os.File) (*handle, error) {
	whole, err := verify(f)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", s.path, err)
	}
	if !whole {
		s.opts.Warn(fmt.Sprintf("One of the two first pages of %s is not valid: it is as it was before its last commit, which was cut short unless the disk is failing", s.path))
	}
	h, err := open(s.path, s.opts.LockTimeout)
	if err != nil {
		return nil, err
	}
	err = guard(func() error { return h.db.View(checkFormat) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", s.path, err), h.db.Close())
	}
	if err := s.readLog(h); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", s.path, err), h.db.Close())
	}
	s.measure(h)
	return h, nil
}

// use makes a handle the one to work with; mu is held, or the store not shared yet.
func (s *Store) use(h *handle) {
	h.shared.Store(true)
	// What a process left that was killed waits for the first write: on a full disk
	// moving it would fail, and take the reading with it.
	s.h, s.cause, s.spent = h, nil, nil
}

// working returns the handle if it is not a failed one.
func (s *Store) working() *handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.h
}

// current returns the handle to work with. After a write of unknown outcome it
// opens the file anew, so that what it reads is what the disk holds.
func (s *Store) current() (*handle, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	if s.h == nil {
		if err := s.reopen(); err != nil {
			return nil, fmt.Errorf("recovering from %q: %w", s.cause.Error(), err)
		}
	}
	return s.h, nil
}

// fail retires a handle after a write whose outcome is unknown, or a panic.
func (s *Store) fail(h *handle, cause error) {
	if !h.failed.CompareAndSwap(false, true) || !h.shared.Load() {
		return // somebody else found out before, or whoever opens it does
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.h != h {
		return // it is being closed
	}
	s.failed.Store(true)
	s.h, s.cause, s.spent, s.ending = nil, cause, h, make(chan struct{})
	ending := s.ending
	// Whoever writes to the database or the log must have ended, and the next one have
	// seen that he may not, and closing waits for readers; reopen waits for all. The
	// locks are not held while it waits for readers: those who want them would too.
	go func() {
		defer close(ending)
		h.moving.Lock()
		h.writer.Lock()
		h.closeLog()
		h.writer.Unlock()
		h.moving.Unlock()
		_ = h.close()
	}()
}

// closeWait is how long reopening waits for the readers of the failed handle.
const closeWait = 3 * time.Second

// reopen replaces the failed handle; mu is held. It succeeds only when the disk
// has been read afresh and has taken a write, so that after it updates can be
// promised again.
func (s *Store) reopen() error {
	select {
	case <-s.ending:
	case <-time.After(closeWait):
		return errors.New("somebody is still reading, a backup perhaps")
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := dropCache(f); err != nil {
		return classify(fmt.Errorf("syncing %s: %w", s.path, err))
	}
	same, err := sameFile(f, s.lock)
	if err != nil {
		return err
	}
	if !same { // the operator has put another in its place
		l, err := lock(s.path, s.opts.LockTimeout)
		if err != nil {
			return err
		}
		s.lock.Close()
		s.lock = l
	}
	if err := dropLogCache(s.path); err != nil {
		return classify(fmt.Errorf("syncing the log: %w", err))
	}
	h, err := s.openHandle(f)
	if err != nil {
		return err
	}
	h.inherit(s.spent)
	if err := s.checkContinues(h); err != nil {
		return errors.Join(err, h.close())
	}
	if err := s.exclusive(h, func() error { return s.arm(h) }); err != nil {
		return errors.Join(err, h.close())
	}
	s.use(h)
	s.failed.Store(false)
	return nil
}

func sameFile(a, b *os.File) (bool, error) {
	fa, err := a.Stat()
	if err != nil {
		return false, err
	}
	fb, err := b.Stat()
	return err == nil && os.SameFile(fa, fb), err
}

// view runs a read transaction on the database, without what the log holds. It is not
// called while the mutex is held.
func (s *Store) view(do func(*bbolt.Tx) error) error {
	return s.viewWith(func(*handle) func(*bbolt.Tx) error { return do })
}

// viewWith is view with a first step that sees the handle, once for each try.
func (s *Store) viewWith(prepare func(*handle) func(*bbolt.Tx) error) error {
	for {
		h, err := s.current()
		if err != nil {
			return err
		}
		if err = s.read(h, prepare(h)); !errors.Is(err, errRetired) { // or closed, between current and here
			return err
		}
	}
}

// read runs a read transaction on a handle.
func (s *Store) read(h *handle, do func(*bbolt.Tx) error) error {
	err := guard(func() error { return h.db.View(do) })
	var p *panicError
	switch {
	case errors.As(err, &p):
		s.retire(h, err)
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return errRetired
	case errors.Is(err, berrors.ErrInvalidMapping):
		s.fail(h, err)
	}
	return err
}

// update runs a write transaction, which sees all that was committed before. Errors
// of do are certain to have written nothing; after all others but ErrClosed the
// outcome is unknown.
func (s *Store) update(do func(*bbolt.Tx) error) error {
	for {
		h, err := s.current()
		if err != nil {
			return classify(err)
		}
		if err = s.move(h, do, nil, 0); !errors.Is(err, errRetired) {
			return err
		}
	}
}

// write runs a write transaction on a handle; the caller holds h.moving.
func (s *Store) write(h *handle, do func(*bbolt.Tx) error) error {
	var tx *bbolt.Tx
	certain := false
	err := guard(func() (err error) {
		if tx, err = h.db.Begin(true); err != nil {
			certain = errors.Is(err, berrors.ErrDatabaseNotOpen)
			return err
		}
		if err := s.present(h); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err := do(tx); err != nil {
			certain = true
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	var p *panicError
	switch {
	case err == nil:
		s.measure(h)
		return nil
	case errors.As(err, &p):
		// The library's locks may be held for ever: what can be let go is.
		s.retire(h, err)
		return err
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return errRetired
	case certain:
		return err
	}
	return s.broken(h, err)
}

// retire fails a handle that panicked.
func (s *Store) retire(h *handle, cause error) {
	h.stuck.Store(true)
	s.fail(h, cause)
}

// present makes sure that the file is still found under its name. A commit to one that
// was removed, moved or replaced would be gone with the next start.
func (s *Store) present(h *handle) error {
	fi, err := os.Stat(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(fi, h.info):
		return errors.New("the file has been removed or replaced")
	case err != nil:
		return err
	}
	return nil
}

// measure refreshes what Stats tells.
func (s *Store) measure(h *handle) {
	fi, err := h.file.Stat()
	if err != nil {
		return
	}
	s.bytes.Store(fi.Size())
	st := h.db.Stats()
	s.free.Store(int64(st.FreePageN+st.PendingPageN) * int64(h.db.Info().PageSize))
}

// Stats implements store.Store. It takes no lock that a commit holds.
func (s *Store) Stats() store.Stats {
	return store.Stats{Kind: "bolt", Bytes: s.bytes.Load() + s.logBytes.Load(), Free: s.free.Load()}
}

// Close implements store.Store. What the log holds goes to the database, and the log
// is removed, so that what is left is one file.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.closing.Store(true)
	h, ending, l := s.h, s.ending, s.lock
	s.h = nil
	s.mu.Unlock()
	defer l.Close()
	s.mover.end()
	if h == nil {
		<-ending
		return nil
	}
	err := s.exclusive(h, func() error {
		had := h.epoch != 0 || s.logBytes.Load() > 0 // or a backup was the last to use it
		if err := s.disarm(h); err != nil {
			return fmt.Errorf("moving the last changes out of %s, where they stay: %w", h.logPath, err)
		}
		if had {
			s.removeLog(h)
		}
		return nil
	})
	if errors.Is(err, errRetired) {
		err = nil
	}
	h.failed.Store(true)
	h.writer.Lock()
	defer h.writer.Unlock()
	if err := errors.Join(err, h.close()); err != nil {
		return fmt.Errorf("closing %s: %w", s.path, err)
	}
	return nil
}

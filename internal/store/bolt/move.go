package bolt

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/wal"
)

// Commits are moved from the log to the database a little later, many in one
// transaction. Each handle has two locks for that: moving, held by whoever writes to
// the database, and inside it writer, held by whoever appends to the log or
// changes what it is.

// logSuffix is what the name of the log has after that of the database.
const logSuffix = ".wal"

const (
	logFirst = 512 << 10 // size of a new log
	logMost  = 16 << 20  // it grows up to here while updates come faster than they are moved
	logStep  = 2
)

// moveAfter is how long a commit stays in the log at most, unless the store fails.
const moveAfter = time.Second

// exclusive runs do while nobody else writes to the handle's log or database.
func (s *Store) exclusive(h *handle, do func() error) error {
	h.moving.Lock()
	defer h.moving.Unlock()
	h.writer.Lock()
	defer h.writer.Unlock()
	if h.failed.Load() {
		return errRetired
	}
	return do()
}

// alone is exclusive on the current handle.
func (s *Store) alone(do func(*handle) error) error {
	for {
		h, err := s.current()
		if err != nil {
			return classify(err)
		}
		if err = s.exclusive(h, func() error { return do(h) }); !errors.Is(err, errRetired) {
			return err
		}
	}
}

// settle moves all that the log holds to the database, and runs do in the same
// transaction. It is called in exclusive.
func (s *Store) settle(h *handle, do func(*bbolt.Tx) error) error {
	commits := h.pending.all()
	err := s.write(h, func(tx *bbolt.Tx) error {
		if err := h.putCommits(tx, commits, nil); err != nil {
			return err
		}
		return do(tx)
	})
	if err == nil {
		h.moved(commits)
		s.relieve(h, len(commits)+1)
	}
	return err
}

// move is settle while others append to the log. A nil do moves what there is, of which
// most, if not 0, are the most commits.
func (s *Store) move(h *handle, do func(*bbolt.Tx) error, pause func(), most int) error {
	h.moving.Lock()
	defer h.moving.Unlock()
	h.writer.Lock()
	failed, commits := h.failed.Load(), h.pending.all()
	h.writer.Unlock()
	if failed {
		return errRetired
	}
	if most > 0 && len(commits) > most {
		commits = commits[:most]
	}
	if do == nil && len(commits) == 0 {
		return nil
	}
	err := s.write(h, func(tx *bbolt.Tx) error {
		if err := h.putCommits(tx, commits, pause); err != nil || do == nil {
			return err
		}
		return do(tx)
	})
	if err != nil {
		return err
	}
	s.relieve(h, len(commits)+1)
	h.writer.Lock()
	defer h.writer.Unlock()
	h.moved(commits)
	return nil
}

// putCommits writes commits from the log into the database, and that they are there.
func (h *handle) putCommits(tx *bbolt.Tx, commits []logged, pause func()) error {
	if len(commits) == 0 {
		return nil
	}
	for p := range merge(commits) {
		if err := p.write(tx, pause); err != nil {
			return err
		}
	}
	return putLogState(tx, logState{h.epoch, commits[len(commits)-1].number})
}

// moved lets go of commits that are in the database now.
func (h *handle) moved(commits []logged) {
	if len(commits) == 0 {
		return
	}
	last := commits[len(commits)-1]
	h.applied = last.number
	h.pending.moved(len(commits))
	if h.log != nil {
		h.log.Release(last.mark)
	}
}

// remember keeps the states that commits led to.
func (h *handle) remember(parts []part) {
	for _, p := range parts {
		h.states[p.origin] = p.next
	}
}

// arm takes a log into use, which proves that the store takes writes. It is called in
// exclusive. At each step a crash leaves a log whose records are all in the
// database.
func (s *Store) arm(h *handle) error {
	if h.log != nil && h.log.Present() {
		return nil
	}
	if !h.pending.empty() {
		if err := s.settle(h, func(*bbolt.Tx) error { return nil }); err != nil {
			return err
		}
	}
	if h.log != nil { // its file was removed
		h.log.Close()
		h.log = nil
	}
	var b [8]byte
	rand.Read(b[:])
	epoch := binary.BigEndian.Uint64(b[:]) | 1 // 0 is "none"
	// One number is left out: a write that failed may still reach the disk, and
	// its record must not look like a new one.
	last := h.applied + 1
	if err := h.claim(); err != nil {
		return s.broken(h, err)
	}
	l, err := wal.Create(h.logPath, logFirst, epoch, last)
	if err != nil {
		return s.broken(h, err)
	}
	err = s.write(h, func(tx *bbolt.Tx) error {
		if err := tx.Bucket(bucketFormat).Put(keyFormat, seal(keyFormat, []byte{formatVersion})); err != nil {
			return err
		}
		return putLogState(tx, logState{epoch, last})
	})
	if err != nil {
		l.Close()
		return err
	}
	h.log, h.logFile, h.epoch, h.applied = l, l.File(), epoch, last
	s.logBytes.Store(l.Size())
	return nil
}

// disarm moves everything and says in the database that no log belongs to it. It is
// called in exclusive.
func (s *Store) disarm(h *handle) error {
	if h.epoch == 0 && h.pending.empty() {
		return nil
	}
	applied := h.applied
	if c := h.pending.all(); len(c) > 0 {
		applied = c[len(c)-1].number
	}
	err := s.settle(h, func(tx *bbolt.Tx) error { return putLogState(tx, logState{0, applied}) })
	if err != nil {
		return err
	}
	h.epoch = 0
	if h.log != nil {
		h.log.Close()
		h.log = nil
	}
	return nil
}

// keyLog, beside the format, says which log belongs to the database.
var keyLog = []byte("log")

// logState is the epoch of the log that belongs to the database, 0 for none, and the
// number of the newest of its records that is in the database.
type logState struct{ epoch, applied uint64 }

func putLogState(tx *bbolt.Tx, l logState) error {
	v := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, l.epoch), l.applied)
	return tx.Bucket(bucketFormat).Put(keyLog, seal(keyLog, v))
}

// readLogState reads what putLogState wrote; databases of format 1 have none.
func readLogState(tx *bbolt.Tx) (logState, error) {
	sealed := tx.Bucket(bucketFormat).Get(keyLog)
	if sealed == nil {
		return logState{}, nil
	}
	v, _, err := unseal(keyLog, sealed)
	if err == nil && len(v) != 16 {
		err = fmt.Errorf("%w: %d octets", errDamaged, len(v))
	}
	if err != nil {
		return logState{}, fmt.Errorf("which log belongs to it: %w", err)
	}
	return logState{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, nil
}

// readLog reads what the log beside the database holds. Nothing is written: a full
// disk does not keep a server from serving.
func (s *Store) readLog(h *handle) error {
	var l logState
	err := guard(func() error {
		return h.db.View(func(tx *bbolt.Tx) (err error) {
			l, err = readLogState(tx)
			return err
		})
	})
	if err != nil {
		return err
	}
	h.epoch, h.applied = l.epoch, l.applied
	c, err := wal.Scan(h.logPath, l.applied)
	if c != nil {
		h.logFile = c.File
	}
	remedy := fmt.Sprintf("put back the %s and %s that belong together, or move %s away to go on without its changes", s.path, h.logPath, h.logPath)
	var failed syscall.Errno
	switch {
	case errors.Is(err, wal.ErrHeader) && l.epoch == 0:
		return nil // cut short while it was taken into use
	case errors.As(err, &failed):
		return fmt.Errorf("reading the log: %w", err) // which says nothing about what is in it
	case err != nil:
		return fmt.Errorf("%w; %s", err, remedy)
	case c == nil && s.spent != nil && s.spent.epoch == l.epoch:
		return nil // what it held is in memory
	case c == nil && l.epoch != 0:
		s.opts.Warn(fmt.Sprintf("%s is missing: the changes of the last seconds before %s was last used are gone with it, unless there were none", h.logPath, s.path))
		return nil
	case c == nil:
		return nil
	case c.Epoch == l.epoch && c.File.Size() < wal.MinSize:
		return fmt.Errorf("%s is cut off, at %d octets; %s", h.logPath, c.File.Size(), remedy)
	case len(c.Records) == 0 && c.Epoch != l.epoch && l.epoch != 0:
		// Cut short while it was taken into use, unless it has been used.
		if c, err := wal.Scan(h.logPath, 0); err != nil || c == nil || len(c.Records) > 0 {
			return fmt.Errorf("%s holds changes of another database: %s", h.logPath, remedy)
		}
		return nil
	case len(c.Records) == 0:
		return nil
	case c.Epoch != l.epoch:
		return fmt.Errorf("%s holds changes that are newer than this database, which looks like an older copy: %s", h.logPath, remedy)
	case c.Records[0].Number != l.applied+1:
		return fmt.Errorf("%s is damaged: it begins with record %d, the database ends with %d; %s", h.logPath, c.Records[0].Number, l.applied, remedy)
	}
	for _, r := range c.Records {
		parts, err := decodeRecord(r.Payload)
		if err != nil {
			return fmt.Errorf("%s, record %d: %w; %s", h.logPath, r.Number, err, remedy)
		}
		h.pending.add(logged{number: r.Number, parts: parts})
	}
	return s.checkContinues(h)
}

// checkContinues makes sure that the log's commits follow those in the database and
// each other.
func (s *Store) checkContinues(h *handle) error {
	states := make(map[string]store.State)
	return guard(func() error {
		return h.db.View(func(tx *bbolt.Tx) error {
			for _, c := range h.pending.all() {
				for _, p := range c.parts {
					st, known := states[string(p.origin)]
					if !known {
						full, found, err := readState(tx, p.origin)
						if err != nil {
							return err
						}
						if !found {
							return fmt.Errorf("%w: %s has changes of zone %s, which is not in it", errDamaged, h.logPath, p.origin)
						}
						st = full.State
					}
					if st.Last != p.after {
						return fmt.Errorf("%w: zone %s is at %d, record %d of %s goes on after %d", errDamaged, p.origin, st.Last, c.number, h.logPath, p.after)
					}
					states[string(p.origin)] = p.next
				}
			}
			return nil
		})
	})
}

// mover moves commits from the log to the database in the background.
type mover struct {
	first, full chan struct{} // something to move; much of it
	stop, done  chan struct{}
}

func newMover() *mover {
	return &mover{make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}), make(chan struct{})}
}

// wake is called after each append.
func (m *mover) wake(l *wal.Log) {
	if 2*l.Pending() >= l.Size() {
		m.signal(m.full)
	} else {
		m.signal(m.first)
	}
}

func (m *mover) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// end stops the mover and waits for what it is doing.
func (m *mover) end() {
	close(m.stop)
	<-m.done
}

func (s *Store) keepMoving() {
	defer close(s.mover.done)
	var due <-chan time.Time
	failed := false
	for {
		full := false
		select {
		case <-s.mover.stop:
			return
		case <-s.mover.first:
			if due == nil {
				due = time.After(moveAfter)
			}
			continue
		case <-s.mover.full:
			full = true
		case <-due:
		}
		due = nil
		h := s.working()
		if h == nil {
			continue // the next call opens the file again, and moves
		}
		var err error
		if full {
			err = s.move(h, nil, pacer(time.Millisecond), 0)
		} else {
			err = s.moveGently(h)
		}
		if err != nil && !errors.Is(err, errRetired) && !failed {
			s.opts.Warn(fmt.Sprintf("Changes could not be moved from %s to the database; they are safe where they are: %v", h.logPath, err))
		}
		if failed = err != nil; !failed && full {
			s.extend(h)
		}
		if !h.pending.empty() {
			due = time.After(moveAfter)
		}
	}
}

// A transaction of bolt does not let anybody else in while it writes its pages: one of
// a thousand commits in a large zone is felt by queries on the same processor.
const (
	gentleCommits = 16
	gentlePause   = 2 * time.Millisecond
)

// moveGently moves what the log holds now in small transactions. When updates come
// faster than that, the log becomes half full, and large ones are cheaper.
func (s *Store) moveGently(h *handle) error {
	for left := len(h.pending.all()); left > 0; left -= gentleCommits {
		if err := s.move(h, nil, pacer(200*time.Microsecond), gentleCommits); err != nil {
			return err
		}
		select {
		case <-s.mover.stop:
			return nil // Close moves the rest
		case <-time.After(gentlePause):
		}
	}
	return nil
}

// pacer returns a pause for between many writes, which is one each time that they
// took that long. On one processor only a sleeper lets the network be read.
func pacer(busy time.Duration) func() {
	last := time.Now()
	return func() {
		if time.Since(last) > busy {
			time.Sleep(time.Microsecond)
			last = time.Now()
		}
	}
}

// extend makes the log larger when updates come faster than they are moved. When that
// fails it stays as it is.
func (s *Store) extend(h *handle) {
	h.writer.Lock()
	l := h.log
	h.writer.Unlock()
	if l == nil || l.Size() >= logMost {
		return
	}
	size := min(l.Size()*logStep, logMost)
	err := l.Extend(size)
	h.writer.Lock()
	defer h.writer.Unlock()
	switch {
	case h.log != l:
	case err != nil:
		l.Shrink()
	default:
		l.Grown(size)
		s.logBytes.Store(size)
	}
}

// ours reports whether the file at the log's path is the one that was read or made, or
// there is none. One that somebody put there may hold what another server promised.
func (h *handle) ours() (bool, error) {
	fi, err := os.Stat(h.logPath)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	return err == nil && h.logFile != nil && os.SameFile(fi, h.logFile), err
}

// claim makes sure that no changes of others are lost when the log's path is taken.
func (h *handle) claim() error {
	ours, err := h.ours()
	if ours || err != nil {
		return err
	}
	if c, err := wal.Scan(h.logPath, 0); err != nil || c != nil && len(c.Records) > 0 {
		return fmt.Errorf("%s is not the log that was here, and may hold changes of another database: move it away", h.logPath)
	}
	return nil
}

// removeLog removes the file of a log that holds nothing any more.
func (s *Store) removeLog(h *handle) {
	if ours, err := h.ours(); err != nil || !ours {
		s.opts.Warn(fmt.Sprintf("%s is not the log that was here, and stays", h.logPath))
		return
	}
	if err := os.Remove(h.logPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return // it is empty: in nobody's way
	}
}

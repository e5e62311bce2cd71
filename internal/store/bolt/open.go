package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/wal"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Options change how a file is opened. The zero value is what a server wants.
type Options struct {
	// LockTimeout is how long to wait for another process to let go of the file;
	// 0 is one second, enough for a predecessor that is just ending.
	LockTimeout time.Duration
	// Warn is told in a sentence of what is odd but no reason to refuse.
	Warn func(message string)
}

const defaultLockTimeout = time.Second

// mapped is how much address space is mapped at once: 4 GiB, or 256 MiB where
// pointers have 32 bits. A mapping that has to grow waits for every reader, a backup
// to a slow disk included; address space costs nothing where there is much of it.
const mapped = 1 << 28 << (4 * (^uint(0) >> 63))

// growth is by how much the file is extended at a time. bbolt's own 16 MiB would
// make a file of a few hosts look that large.
const growth = 1 << 20

// handle is one opening of the database and its log. It is used until the outcome of a
// write is unknown, then never again.
type handle struct {
	db     *bbolt.DB
	file   *os.File    // bbolt's own
	info   os.FileInfo // of file, to know it by
	stuck  atomic.Bool // bbolt panicked: it may hold its locks for ever
	failed atomic.Bool // set before the handle is given up
	shared atomic.Bool // the store works with it: its failure has to be told

	logPath string
	pending pending

	moving sync.Mutex // held by whoever writes to the database; see move.go
	writer sync.Mutex // held by whoever appends to the log; taken after moving

	// guarded by writer
	log     *wal.Log    // nil until the first commit that it is for
	logFile os.FileInfo // of the log that was read or made; nil when there was none
	epoch   uint64      // of the log that the database names, 0 for none
	applied uint64      // number of the newest record that is in the database
	states  map[zone.Name]store.State
	buf     []byte
}

// open opens path, which must exist and be locked by the caller, for the store.
func open(path string, timeout time.Duration) (*handle, error) {
	h := &handle{states: make(map[zone.Name]store.State)}
	var err error
	if h.logPath, err = logOf(path); err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	// The free list is not written with each commit: once a large change was
	// trimmed from the journal it is long, and writing it made a commit at a million
	// hosts three times as slow, and one at a thousand by half. bbolt finds the free
	// pages again when it opens the file, and after a failed write, by walking
	// it; at opening the pages were checked just before, so the walk, whose panic
	// nobody could catch, finds nothing to panic about.
	o := &bbolt.Options{
		Timeout:         timeout,
		FreelistType:    bbolt.FreelistMapType,
		NoFreelistSync:  true,
		InitialMmapSize: mapped,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			// Not to create: the file was there a moment ago, or has been made
			// durable by create.
			f, err := os.OpenFile(name, flag&^os.O_CREATE, perm)
			h.file = f
			return f, err
		},
	}
	err = guard(func() (err error) {
		h.db, err = bbolt.Open(path, 0o600, o)
		return err
	})
	var p *panicError
	switch {
	case err == nil:
		h.db.AllocSize = growth
		if h.info, err = h.file.Stat(); err == nil {
			return h, nil
		}
		_ = guard(h.db.Close)
	case errors.Is(err, berrors.ErrTimeout):
		return nil, inUse(path)
	case errors.Is(err, syscall.ENOMEM):
		return nil, fmt.Errorf("opening %s: mapping %d MiB of address space: %w: is it limited, as by ulimit -v or LimitAS=?", path, uint64(mapped)>>20, err)
	case errors.As(err, &p):
		h.release()
	}
	return nil, fmt.Errorf("opening %s: %w", path, err)
}

func inUse(path string) error {
	return fmt.Errorf("opening %s: another process is using it", path)
}

// release gives up the file of a handle that cannot be closed. What bbolt mapped
// stays mapped.
func (h *handle) release() {
	if h.file != nil {
		// The mapping keeps the lock when the descriptor is closed.
		_ = syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN)
		h.file.Close()
	}
}

// closeLog gives up the log as it is.
func (h *handle) closeLog() {
	if h.log != nil {
		h.log.Close()
		h.log = nil
	}
}

// inherit takes what another handle on the same log holds in memory and this one did
// not find there: it was acknowledged, whatever became of the file.
func (h *handle) inherit(old *handle) {
	if old.epoch != h.epoch {
		return // another database was put in its place
	}
	last := h.applied
	if c := h.pending.all(); len(c) > 0 {
		last = c[len(c)-1].number
	}
	for _, c := range old.pending.all() {
		if c.number == last+1 {
			h.pending.add(c)
			last++
		}
	}
}

// close gives up the database and the log, both as they are.
func (h *handle) close() error {
	h.closeLog()
	if h.stuck.Load() {
		h.release()
		return nil
	}
	return guard(h.db.Close)
}

// logOf is the path of the log of the database at path. One that is reached by a link
// has it beside itself, not beside the link.
func logOf(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	return real + logSuffix, err
}

// dropLogCache is dropCache for the log of the database at path.
func dropLogCache(path string) error {
	path, err := logOf(path)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(dropCache(f), f.Close())
}

// examine looks at what is at path before anything is done with it. exists is
// false when there is nothing.
func examine(path string, warn func(string)) (exists bool, err error) {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if li, err := os.Lstat(path); err == nil && li.Mode()&fs.ModeSymlink != 0 {
			return false, fmt.Errorf("opening %s: it is a symbolic link to nowhere", path)
		}
		dir := filepath.Dir(path)
		di, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return false, fmt.Errorf("opening %s: there is no directory %s; create it first", path, dir)
		case err != nil:
			return false, fmt.Errorf("opening %s: %w", path, err)
		case !di.IsDir():
			return false, fmt.Errorf("opening %s: %s is not a directory", path, dir)
		}
		if err := writable(dir); err != nil {
			return false, fmt.Errorf("opening %s: the directory %s cannot be written, and the database is made there: %w", path, dir, err)
		}
		if _, err := os.Stat(path + logSuffix); err == nil {
			return false, fmt.Errorf("opening %s: it is missing, but its log %s is there: put it back, or move the log away to begin with an empty database", path, path+logSuffix)
		}
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("opening %s: %w", path, err)
	}
	if !fi.Mode().IsRegular() {
		return false, fmt.Errorf("opening %s: it is not a regular file", path)
	}
	// Found out now, not by the first update.
	if log, err := logOf(path); err != nil {
		return false, fmt.Errorf("opening %s: %w", path, err)
	} else if err := writable(filepath.Dir(log)); err != nil {
		return false, fmt.Errorf("opening %s: the directory %s cannot be written, and the log is made there: %w", path, filepath.Dir(log), err)
	}
	if m := fi.Mode().Perm(); m&0o077 != 0 {
		warn(fmt.Sprintf("The database %s may be read or written by others than its owner (mode %04o); 0600 is enough", path, m))
	}
	return true, nil
}

// create makes an empty database at path that is there whole or not at all, also
// after a power cut: it is written under another name, synced, and then linked.
func create(path string) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.new")
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	tmp.Close()
	defer os.Remove(tmp.Name())
	if err := initialise(tmp.Name()); err != nil {
		return fmt.Errorf("creating %s: %w", path, classify(err))
	}
	// Another process may have done the same: the first one wins.
	err = os.Link(tmp.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		// A file system without hard links.
		if err := os.Rename(tmp.Name(), path); err != nil {
			return fmt.Errorf("creating %s: %w", path, err)
		}
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("creating %s: syncing its directory: %w", path, err)
	}
	return nil
}

// initialise writes the buckets that every database has, and the format.
func initialise(path string) error {
	h, err := open(path, defaultLockTimeout)
	if err != nil {
		return err
	}
	err = guard(func() error {
		return h.db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists(bucketFormat)
			if err != nil {
				return err
			}
			if _, err := tx.CreateBucketIfNotExists(bucketZones); err != nil {
				return err
			}
			return b.Put(keyFormat, seal(keyFormat, []byte{formatVersion}))
		})
	})
	return errors.Join(err, h.db.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// errBlank is checkFormat's answer to a database with nothing in it.
var errBlank = errors.New("it is empty")

// checkFormat refuses files that this program did not write or must not.
func checkFormat(tx *bbolt.Tx) error {
	b := tx.Bucket(bucketFormat)
	if b == nil {
		if k, _ := tx.Cursor().First(); k == nil {
			return errBlank
		}
		return errors.New("it is a database of another program, or a damaged one")
	}
	v, _, err := unseal(keyFormat, b.Get(keyFormat))
	if err != nil {
		return fmt.Errorf("its format: %w", err)
	}
	if len(v) != 1 || v[0] == 0 {
		return fmt.Errorf("its format: %w", errDamaged)
	}
	if v[0] > formatVersion {
		return fmt.Errorf("it has format %d, written by a newer version of this program; this one knows formats up to %d", v[0], formatVersion)
	}
	if tx.Bucket(bucketZones) == nil {
		return fmt.Errorf("%w: no list of zones", errDamaged)
	}
	return nil
}

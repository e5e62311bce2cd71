package bolt_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestOpenRefuses(t *testing.T) {
	put := func(path, bucket, key string, value []byte) error {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			return err
		}
		return errors.Join(db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte(bucket))
			if err != nil {
				return err
			}
			return b.Put([]byte(key), value)
		}), db.Close())
	}
	tests := []struct {
		name string
		make func(path string) error
		want string
	}{
		{"a missing directory", func(path string) error { return os.Remove(filepath.Dir(path)) }, "no directory"},
		{"a file for a directory", func(path string) error {
			dir := filepath.Dir(path)
			return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600))
		}, "not a directory"},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		{"a link to nowhere", func(path string) error { return os.Symlink(path+".gone", path) }, "symbolic link to nowhere"},
		{"text", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("text\n"), 5000), 0o600) }, "not a database"},
		{"one octet", func(path string) error { return os.WriteFile(path, []byte{1}, 0o600) }, "not a database"},
		{"a database of another program", func(path string) error { return put(path, "members", "k", []byte("v")) }, "another program"},
		{"a newer format", func(path string) error {
			return put(path, "ddns", "format", bolt.Seal([]byte("format"), []byte{3}))
		}, "format 3, written by a newer version"},
		{"a damaged format", func(path string) error { return put(path, "ddns", "format", []byte("1")) }, "damaged"},
		{"a database without its list of zones", func(path string) error {
			return put(path, "ddns", "format", bolt.Seal([]byte("format"), []byte{1}))
		}, "no list of zones"},
		{"a file in use", func(path string) error {
			s, err := bolt.Open(path, bolt.Options{})
			t.Cleanup(func() { s.Close() })
			return err
		}, "another process is using it"},
		{"a file in use by another program", func(path string) error {
			db, err := bbolt.Open(path, 0o600, nil)
			t.Cleanup(func() { db.Close() })
			return err
		}, "another process is using it"},
	}
	for _, tt := range tests {
		dir := filepath.Join(t.TempDir(), "dir")
		path := filepath.Join(dir, "ddns.db")
		if err := errors.Join(os.Mkdir(dir, 0o700), tt.make(path)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		s, err := bolt.Open(path, bolt.Options{LockTimeout: 50 * time.Millisecond})
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", tt.name)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %q, want %q and the file's name", tt.name, err, tt.want)
		}
	}
}

func TestOpenAccepts(t *testing.T) {
	tests := map[string]func(path string) error{
		"nothing":        func(string) error { return nil },
		"an empty file":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"an empty bbolt": func(path string) error { db, err := bbolt.Open(path, 0o600, nil); return errors.Join(err, db.Close()) },
		"a link to a file": func(path string) error {
			return errors.Join(os.WriteFile(path+".real", nil, 0o600), os.Symlink(path+".real", path))
		},
	}
	for name, make := range tests {
		path := filepath.Join(t.TempDir(), "ddns.db")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		c := storetest.NewChain("example.org.")
		if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(3)}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		storetest.Verify(t, s, c)
		s.Close()
		storetest.Verify(t, open(t, path), c)
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
		if files, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(files) != 0 {
			t.Errorf("%s: left behind %v", name, files)
		}
	}
}

func TestOpenWarnsOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ddns.db")
	open(t, path).Close()
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	var warned []string
	s, err := bolt.Open(path, bolt.Options{Warn: func(m string) { warned = append(warned, m) }})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if len(warned) != 1 || !strings.Contains(warned[0], path) || !strings.Contains(warned[0], "0640") {
		t.Errorf("warnings: %q", warned)
	}
}

// Two processes that start at the same moment must not each get a file.
func TestOpenTwiceAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "ddns.db")
		type result struct {
			s   *bolt.Store
			err error
		}
		results := make(chan result)
		for range 4 {
			go func() {
				s, err := bolt.Open(path, bolt.Options{LockTimeout: time.Millisecond})
				results <- result{s, err}
			}()
		}
		var opened []*bolt.Store
		for range 4 {
			r := <-results
			if r.err == nil {
				opened = append(opened, r.s)
			} else if !strings.Contains(r.err.Error(), "another process") {
				t.Error(r.err)
			}
		}
		if len(opened) != 1 {
			t.Errorf("%d opened it", len(opened))
		}
		for _, s := range opened {
			s.Close()
		}
	}
}

// After an error, and after a panic that leaves locks held, the next call works
// with the file opened anew, and nobody else could get it meanwhile.
func TestRecovers(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "ddns.db")
		s := open(t, path)
		c := storetest.NewChain("example.org.")
		if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(300)}); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			s.Retire(errors.New("a fault of the test"), stuck)
			if o, err := bolt.Open(path, bolt.Options{LockTimeout: time.Millisecond}); err == nil {
				o.Close()
				t.Fatal("the file was free to take")
			}
			if i%2 == 0 {
				storetest.Verify(t, s, c)
			}
			if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(i, 9)})}); err != nil {
				t.Fatal(err)
			}
		}
		storetest.Verify(t, s, c)
		s.Retire(errors.New("a fault of the test"), stuck)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		storetest.Verify(t, open(t, path), c)
	}
}

// A backup that is under way when a write fails ends, and does not hold up recovery.
func TestCloseEndsBackups(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ddns.db"))
	closed := make(chan error, 1)
	writes := 0
	_, err := s.Backup(t.Context(), writer(func(p []byte) (int, error) {
		if writes++; writes == 1 {
			go func() { closed <- s.Close() }()
			for !s.Closing() {
				runtime.Gosched()
			}
		}
		return len(p), nil
	}))
	if !errors.Is(err, store.ErrClosed) || writes != 1 {
		t.Errorf("Backup: %v after %d writes, want ErrClosed after one", err, writes)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func TestRecoveryEndsBackups(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ddns.db"))
	c := storetest.NewChain("example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(3000)}); err != nil {
		t.Fatal(err)
	}
	writes := 0
	_, err := s.Backup(t.Context(), writer(func(p []byte) (int, error) {
		if writes++; writes == 1 {
			s.Retire(errors.New("a fault of the test"), false)
		}
		return len(p), nil
	}))
	if err == nil || !strings.Contains(err.Error(), "recovering") || writes != 1 {
		t.Errorf("Backup: %v after %d writes", err, writes)
	}
	storetest.Verify(t, s, c)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// Commits to a file without a name would be gone with the process.
func TestRemovedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ddns.db")
	s := open(t, path)
	c := storetest.NewChain("example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(3)}); err != nil {
		t.Fatal(err)
	}
	var copied bytes.Buffer
	if _, err := s.Backup(t.Context(), &copied); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	was := c.Clone()
	for range 2 {
		if err := s.Commit(t.Context(), []store.ZoneCommit{was.Clone().Commit([]storetest.Change{c.Set(1, 5)})}); err == nil {
			t.Fatal("a commit to a removed file is acknowledged")
		}
	}
	if _, _, err := s.Load(t.Context(), c.Origin, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
	// The operator puts the backup in its place.
	if err := os.WriteFile(path, copied.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, was)
	if o, err := bolt.Open(path, bolt.Options{LockTimeout: time.Millisecond}); err == nil {
		o.Close()
		t.Error("the restored file is not locked")
	}
}

// The same of one that would not be found by the next start.
func TestMovedWhileOpen(t *testing.T) {
	for name, away := range map[string]func(path string) error{
		"moved":                      func(path string) error { return os.Rename(path, path+".away") },
		"its directory moved":        func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".away") },
		"removed, with another link": func(path string) error { return errors.Join(os.Link(path, path+".away"), os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "data", "ddns.db")
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			s := open(t, path)
			c := storetest.NewChain("example.org.")
			for _, zc := range []store.ZoneCommit{c.Create(3), c.Commit([]storetest.Change{c.Set(1, 5)})} {
				if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
					t.Fatal(err)
				}
			}
			was := c.Clone()
			if err := away(path); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Commit(t.Context(), []store.ZoneCommit{was.Clone().Commit([]storetest.Change{c.Set(1, 6)})}); err == nil {
					t.Fatal("a commit to a file that no start would find is acknowledged")
				}
			}
			// The operator puts it back.
			if name == "its directory moved" {
				path = filepath.Dir(path)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
			storetest.Verify(t, s, was)
			if err := s.Commit(t.Context(), []store.ZoneCommit{was.Commit([]storetest.Change{c.Set(1, 7)})}); err != nil {
				t.Error(err)
			}
			storetest.Verify(t, s, was)
		})
	}
}

// What the caller's function does is the caller's: the store survives it.
func TestPutThatPanics(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "ddns.db"))
	c := storetest.NewChain("example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(3)}); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if r := recover(); r != "mine" {
				t.Errorf("recovered %v", r)
			}
		}()
		s.Load(t.Context(), c.Origin, func(zone.Name, zone.Node) { panic("mine") })
	}()
	storetest.Verify(t, s, c)
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 5)})}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsLeaked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ddns.db")
	c := storetest.NewChain("example.org.")
	cycle := func() {
		s := open(t, path)
		if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 5)})}); err != nil {
			t.Fatal(err)
		}
		for range s.Journal(t.Context(), c.Origin, 0, 1) {
			break
		}
		s.Retire(errors.New("a fault of the test"), false)
		storetest.Verify(t, s, c)
		if err := errors.Join(s.Check(t.Context()), s.Close()); err != nil {
			t.Fatal(err)
		}
		if o, err := bolt.Open(filepath.Join(path, "no"), bolt.Options{}); err == nil {
			o.Close()
		}
	}
	cycle()
	fds, goroutines := descriptors(t), runtime.NumGoroutine()
	for range 30 {
		cycle()
	}
	if n := descriptors(t); n > fds {
		t.Errorf("%d descriptors, before %d", n, fds)
	}
	if n := runtime.NumGoroutine(); n > goroutines+2 { // of the runtime's own
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(entries)
}

func TestStats(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ddns.db")
	s := open(t, path)
	c := storetest.NewChain("example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(5000)}); err != nil {
		t.Fatal(err)
	}
	full := s.Stats()
	fi, err := os.Stat(path)
	if err != nil || full.Kind != "bolt" || full.Bytes != fi.Size() {
		t.Errorf("got %+v, the file has %d octets, %v", full, fi.Size(), err)
	}
	if err := s.Remove(t.Context(), c.Origin); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Free < full.Free+100_000 {
		t.Errorf("free went from %d to %d when the zone was removed", full.Free, st.Free)
	}
}

// Reading what the disk no longer has is a signal that would end the process.
func TestCutOffWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ddns.db")
	s := open(t, path)
	c := storetest.NewChain("example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(3000)}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if err := storetest.Compare(s, c); err == nil {
		t.Error("Load: no error")
	}
	err = s.Commit(t.Context(), []store.ZoneCommit{c.Clone().Commit([]storetest.Change{c.Set(1, 5)})})
	if err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("Commit: %v", err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, c)

	// The same when it is a commit that finds out.
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Clone().Commit([]storetest.Change{c.Set(1, 5)})}); err == nil {
		t.Error("Commit: no error")
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, c)
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 5)})}); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, c)
}

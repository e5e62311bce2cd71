package bolt_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("ddns-test", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("mounting a small file system: %v", err)
		}
		t.Skipf("mounting a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

func fillUp(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

// A start after a crash on a full disk serves what there is, also a while later.
func TestFullDiskAfterAKill(t *testing.T) {
	s, c, _, path := logged(t, 1)
	for i := range 20 { // more than fits on the pages that are free
		var changes []storetest.Change
		for k := range 60 {
			changes = append(changes, c.Set(1000+60*i+k, k))
		}
		if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit(changes)}); err != nil {
			t.Fatal(err)
		}
	}
	path = killed(t, path)
	dir := smallDisk(t, "4m")
	for _, f := range [][2]string{{"", "always"}, {".wal", "never"}} { // bbolt makes the file larger without writing it
		suffix, sparse := f[0], f[1]
		if out, err := exec.Command("cp", "--sparse="+sparse, path+suffix, filepath.Join(dir, "ddns.db"+suffix)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	path = filepath.Join(dir, "ddns.db")
	fillUp(t, filepath.Join(dir, "ballast"))
	var warned []string
	s, err := bolt.Open(path, bolt.Options{Warn: func(m string) { warned = append(warned, m) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.Verify(t, s, c)
	time.Sleep(1500 * time.Millisecond)
	if err := storetest.Compare(s, c); err != nil {
		t.Errorf("a second later: %v", err)
	}
	t.Logf("warned: %q", warned)
}

// What could not be added to the log does not fill the disk.
func TestLogThatCannotGrowTakesNoSpace(t *testing.T) {
	dir := smallDisk(t, "8m")
	path := filepath.Join(dir, "ddns.db")
	s := open(t, path)
	c := storetest.NewChain("dyn.example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Create(3000)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 1)})}); err != nil {
		t.Fatal(err)
	}
	free := func() int64 {
		var st syscall.Statfs_t
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Bfree) * st.Bsize
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, free()-(400<<10)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		var changes []storetest.Change
		for k := range 60 {
			changes = append(changes, c.Set((i*61+k*13)%3000, i+k))
		}
		zc := c.Commit(changes)
		if c.State.Last > 10 {
			zc = c.Trim(zc, c.State.Last-5)
		}
		if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
			t.Fatalf("commit %d, %d octets free: %v", i, free(), err)
		}
	}
	// An attempt may be under way, which takes back what it got.
	var size int64
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		fi, err := os.Stat(path + ".wal")
		if err != nil {
			t.Fatal(err)
		}
		if size = fi.Size(); size <= 512<<10 {
			return
		}
	}
	t.Errorf("the log has %d octets, %d are free", size, free())
}

// Commits without changesets are seen by the next Load.
func TestCommitWithoutChangesets(t *testing.T) {
	s, c, _, _ := logged(t, 10)
	zc := store.ZoneCommit{Origin: c.Origin, After: c.State.Last, Serial: c.State.Serial}
	if err := s.Advance(t.Context(), store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}}); err != nil {
		t.Fatal(err)
	}
	zc = c.Trim(zc, c.State.Last-2)
	if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, c)
}

// After a backup too, a clean stop leaves one file, and an older backup can be put in
// its place.
func TestCloseAfterBackupLeavesOneFile(t *testing.T) {
	s, c, _, path := logged(t, 5)
	var older bytes.Buffer
	if _, err := s.Backup(t.Context(), &older); err != nil {
		t.Fatal(err)
	}
	then := c.Clone()
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 99)})}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Backup(t.Context(), io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + ".wal"); err == nil {
		t.Error("the log is still there after a clean stop")
	}
	replace(t, path, older.Bytes())
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.Verify(t, s, then)
}

// Damage to a zone's records is that zone's trouble.
func TestDamageStopsItsZoneOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ddns.db")
	s := open(t, path)
	a, b := storetest.NewChain("a.example.org."), storetest.NewChain("b.example.org.")
	if err := s.Commit(t.Context(), []store.ZoneCommit{a.Create(10), b.Create(10)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		bk := tx.Bucket([]byte("n" + string(a.Origin)))
		key := bolt.AppendOwner(nil, a.Origin, a.Host(3))
		v := bytes.Clone(bk.Get(key))
		v[0] ^= 0x40
		return bk.Put(key, v)
	}); err != nil {
		t.Fatal(err)
	}
	db.Close()
	var warned []string
	s, err = bolt.Open(path, bolt.Options{Warn: func(m string) { warned = append(warned, m) }})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Commit(t.Context(), []store.ZoneCommit{a.Commit([]storetest.Change{a.Set(3, 77)})})
	t.Logf("commit to the damaged owner: %v", err)
	time.Sleep(1200 * time.Millisecond)
	for i := range 500 {
		if err := s.Commit(t.Context(), []store.ZoneCommit{b.Commit([]storetest.Change{b.Set(3, i)})}); err != nil {
			t.Errorf("commit %d to the healthy zone (refused %t): %v", i, errors.Is(err, store.ErrRefused), err)
			break
		}
	}
	if err := s.Advance(t.Context(), store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}}); err != nil {
		t.Errorf("Advance: %v", err)
	}
	t.Logf("warned: %q", warned)
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	s = open(t, path)
	storetest.Verify(t, s, a)
	storetest.Verify(t, s, b)
}

type stalled struct{ begun, go_ chan struct{} }

func (s *stalled) Write(p []byte) (int, error) {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	<-s.go_
	return len(p), nil
}

// The log of another lineage, whose numbers are smaller, must not be dropped silently.
func TestLogOfAnotherDatabaseIsRefused(t *testing.T) {
	_, _, _, young := logged(t, 3)
	young = killed(t, young)
	_, _, _, old := logged(t, 50)
	old = killed(t, old)
	// everything of the old one is in the database
	o, err := bolt.Open(old, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Advance(t.Context(), store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}})
	old = killed(t, old)
	o.Close()
	b, _ := os.ReadFile(young + ".wal")
	replace(t, old+".wal", b)
	s, err := bolt.Open(old, bolt.Options{Warn: func(m string) { t.Logf("warned: %s", m) }})
	if err == nil {
		s.Close()
		t.Error("opened beside a log of another database that holds changes")
	} else if !strings.Contains(err.Error(), ".wal") {
		t.Error(err)
	}
}

// Whoever waits for a handle that is given up gets an answer, also while a client reads
// a backup slowly.
func TestWaitersOfAFailedHandle(t *testing.T) {
	s, _, _, _ := logged(t, 3)
	w := &stalled{make(chan struct{}), make(chan struct{})}
	backup := make(chan error)
	go func() { _, err := s.Backup(nilContext, w); backup <- err }()
	<-w.begun
	release := s.HoldMoving()
	advanced := make(chan error, 1)
	go func() {
		advanced <- s.Advance(nilContext, store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}})
	}()
	time.Sleep(100 * time.Millisecond)
	s.Retire(errors.New("a fault of the test"), false)
	time.Sleep(100 * time.Millisecond)
	release()
	select {
	case err := <-advanced:
		t.Logf("Advance: %v", err)
	case <-time.After(8 * time.Second):
		t.Error("Advance waits for the backup's client")
	}
	close(w.go_)
	<-backup
}

// The log is removed, and then a write fails: what was acknowledged is still in memory.
func TestLogRemovedBeforeAFailure(t *testing.T) {
	s, c, _, path := logged(t, 5)
	if err := os.Remove(path + ".wal"); err != nil {
		t.Fatal(err)
	}
	s.Retire(errors.New("a fault of the test"), false)
	st, _, err := s.Load(t.Context(), c.Origin, nil)
	if err == nil && st.Last != c.State.Last {
		t.Errorf("at %d, %d was acknowledged", st.Last, c.State.Last)
	}
	t.Log(err)
}

func TestRemoveBesideReaders(t *testing.T) {
	s, _, _, _ := logged(t, 1)
	done := make(chan struct{})
	failed := make(chan error, 100)
	origin := storetest.NewChain("gone.example.org.").Origin
	for range 4 {
		go func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				for _, err := range s.Journal(nilContext, origin, 0, math.MaxUint64) {
					if err != nil && !errors.Is(err, store.ErrTrimmed) {
						select {
						case failed <- err:
						default:
						}
					}
				}
				if _, _, err := s.Load(nilContext, origin, func(zone.Name, zone.Node) {}); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		}()
	}
	for deadline := time.Now().Add(4 * time.Second); time.Now().Before(deadline); {
		c := storetest.NewChain("gone.example.org.")
		if err := s.Commit(nilContext, []store.ZoneCommit{c.Create(2)}); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := s.Commit(nilContext, []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, i)})}); err != nil {
				t.Fatal(err)
			}
			if i == 0 { // moves
				s.Advance(nilContext, store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}})
			}
		}
		if err := s.Remove(nilContext, origin); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	select {
	case err := <-failed:
		t.Error(err)
	default:
	}
}

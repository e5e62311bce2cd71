package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/wal"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// logged makes a store whose last commits are in the log alone.
func logged(t testing.TB, commits int) (s *bolt.Store, c, before *storetest.Chain, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ddns.db")
	s = open(t, path)
	c = storetest.NewChain("dyn.example.org.")
	commit := func(zc store.ZoneCommit) {
		t.Helper()
		if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
			t.Fatal(err)
		}
	}
	commit(c.Create(50))
	for i := range commits {
		before = c.Clone()
		zc := c.Commit([]storetest.Change{c.Set(i%60, i)}, []storetest.Change{c.Set(i%7, 1000+i)})
		if i > 20 && i%10 == 0 {
			zc = c.Trim(zc, c.State.Last-20)
		}
		commit(zc)
	}
	return s, c, before, path
}

// killed copies the files of a store as a process would leave them that is killed
// now.
func killed(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "ddns.db")
	for _, suffix := range []string{".wal", ""} { // a move to the database meanwhile is no harm in this order
		b, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func replace(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLogIsReadAfterAKill(t *testing.T) {
	for _, commits := range []int{1, 5, 200} {
		s, c, _, path := logged(t, commits)
		storetest.Verify(t, s, c)
		path = killed(t, path)
		for range 2 { // a start that changes nothing, and another
			s, err := bolt.Open(path, bolt.Options{Warn: func(m string) { t.Errorf("warned: %s", m) }})
			if err != nil {
				t.Fatal(err)
			}
			storetest.Verify(t, s, c)
			if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 7)})}); err != nil {
				t.Fatal(err)
			}
			storetest.Verify(t, s, c)
			path2 := killed(t, path)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path = path2
		}
		storetest.Verify(t, open(t, path), c)
	}
}

func TestCloseLeavesOneFile(t *testing.T) {
	s, c, _, path := logged(t, 5)
	if _, err := os.Stat(path + ".wal"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("left: %v, %v", files, err)
	}
	storetest.Verify(t, open(t, path), c)
}

// What was committed is in the database a moment later, without another call.
func TestLogIsMoved(t *testing.T) {
	s, c, _, path := logged(t, 5)
	defer s.Close()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		alone := killed(t, path)
		if err := os.Remove(alone + ".wal"); err != nil {
			t.Fatal(err)
		}
		o, err := bolt.Open(alone, bolt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = storetest.Compare(o, c)
		o.Close()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the database alone: %v", err)
		}
	}
}

// Commits that come faster than they can be moved make the log larger, within its
// bound, and wait when that is reached.
func TestLogGrowsWithinItsBound(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	s, c, _, path := logged(t, 1)
	most := int64(0)
	for i := range 1500 {
		var changes []storetest.Change
		for k := range 60 {
			changes = append(changes, c.Set((i*61+k*13)%3000, i+k))
		}
		zc := c.Commit(changes)
		if c.State.Last > 60 {
			zc = c.Trim(zc, c.State.Last-50)
		}
		if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path + ".wal")
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, fi.Size())
	}
	if most < 1<<20 || most > 16<<20 {
		t.Errorf("the log had %d octets", most)
	}
	storetest.Verify(t, s, c)
	storetest.Verify(t, open(t, killed(t, path)), c)
}

func TestMissingLogIsTold(t *testing.T) {
	_, _, _, path := logged(t, 5)
	path = killed(t, path)
	if err := os.Remove(path + ".wal"); err != nil {
		t.Fatal(err)
	}
	var warned []string
	s, err := bolt.Open(path, bolt.Options{Warn: func(m string) { warned = append(warned, m) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(warned) != 1 || !strings.Contains(warned[0], path+".wal is missing") {
		t.Errorf("warned: %q", warned)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A backup that is put in the place of a database must not get the changes that were
// made after it, silently, nor lose them silently.
func TestLogOfANewerDatabaseIsRefused(t *testing.T) {
	s, c, _, path := logged(t, 5)
	var backup bytes.Buffer
	if _, err := s.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	then := c.Clone()
	for i := range 3 {
		if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(i, 99)})}); err != nil {
			t.Fatal(err)
		}
	}
	path = killed(t, path)
	replace(t, path, backup.Bytes())
	_, err := bolt.Open(path, bolt.Options{})
	if err == nil || !strings.Contains(err.Error(), "older copy") || !strings.Contains(err.Error(), path+".wal") {
		t.Fatalf("Open: %v", err)
	}
	if err := os.Rename(path+".wal", path+".wal.away"); err != nil {
		t.Fatal(err)
	}
	s, err = bolt.Open(path, bolt.Options{Warn: func(m string) { t.Errorf("warned: %s", m) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	storetest.Verify(t, s, then)
}

// A copy of the database file from another moment does not fit its log.
func TestLogThatDoesNotContinueIsRefused(t *testing.T) {
	s, c, _, path := logged(t, 3)
	early := killed(t, path)
	// Everything is moved by an Advance, and the log goes on.
	if err := s.Advance(t.Context(), store.Advance{Follower: "f", Put: []store.Item{{Key: "k", Value: []byte("v")}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 3)})}); err != nil {
		t.Fatal(err)
	}
	late := killed(t, path)
	b, err := os.ReadFile(late + ".wal")
	if err != nil {
		t.Fatal(err)
	}
	replace(t, early+".wal", b)
	if _, err := bolt.Open(early, bolt.Options{}); err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), early+".wal") {
		t.Errorf("Open: %v", err)
	}
}

// TestDamagedLog flips each sector of the log in turn. All that was committed is served,
// or all but what the last record held, whose damage looks like a write that was
// cut short; or the database is refused.
func TestDamagedLog(t *testing.T) {
	_, last, before, path := logged(t, 12)
	path = killed(t, path)
	database, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path + ".wal")
	if err != nil {
		t.Fatal(err)
	}
	used := (bytes.LastIndex(whole, []byte("dwal"))/wal.Block + 1) * wal.Block
	served, refused, shorter := 0, 0, 0
	for at := 0; at < used; at += sector {
		b := slices.Clone(whole)
		invert(b[at:at+sector], 1)
		replace(t, path, database)
		replace(t, path+".wal", b)
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			if refused++; !strings.Contains(err.Error(), path+".wal") {
				t.Errorf("octet %d: refused without naming the file: %v", at, err)
			}
			continue
		}
		served++
		if storetest.Compare(s, last) != nil {
			shorter++
			if err := storetest.Compare(s, before); err != nil {
				t.Errorf("octet %d: served something else: %v", at, err)
			}
		}
		s.Close()
	}
	t.Logf("%d served, %d of them without the last record, %d refused", served, shorter, refused)
	if refused < 5 || shorter == 0 || shorter > 2 {
		t.Errorf("%d refused, %d served without the last record", refused, shorter)
	}
}

// The log's file is removed under a running server: nothing that it held is lost.
func TestLogRemovedWhileOpen(t *testing.T) {
	s, c, _, path := logged(t, 5)
	if err := os.Remove(path + ".wal"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 5)})}); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, s, c)
	storetest.Verify(t, open(t, killed(t, path)), c)
}

// It is moved away, or has another name too: the next commit is in one that a start
// finds.
func TestLogMovedWhileOpen(t *testing.T) {
	for name, away := range map[string]func(path string) error{
		"moved":                      func(path string) error { return os.Rename(path, path+".away") },
		"removed, with another link": func(path string) error { return errors.Join(os.Link(path, path+".away"), os.Remove(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			s, c, _, path := logged(t, 5)
			if err := away(path + ".wal"); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 5)})}); err != nil {
				t.Fatal(err)
			}
			storetest.Verify(t, s, c)
			storetest.Verify(t, open(t, killed(t, path)), c)
		})
	}
}

// The log of another database is put in place of ours under a running server: its
// changes are not ours to write over, or to remove.
func TestLogOfAnotherIsLeftAlone(t *testing.T) {
	_, _, _, other := logged(t, 3)
	foreign, err := os.ReadFile(killed(t, other) + ".wal")
	if err != nil {
		t.Fatal(err)
	}
	for _, during := range []string{"a commit", "the end"} {
		t.Run(during, func(t *testing.T) {
			_, c, _, path := logged(t, 5)
			path = killed(t, path)
			warned := ""
			s, err := bolt.Open(path, bolt.Options{Warn: func(m string) { warned += m }})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 4)})}); err != nil {
				t.Fatal(err)
			}
			was := c.Clone()
			if err := os.Rename(path+".wal", path+".wal.away"); err != nil {
				t.Fatal(err)
			}
			replace(t, path+".wal", foreign)
			if during == "a commit" {
				for range 2 {
					err := s.Commit(t.Context(), []store.ZoneCommit{c.Clone().Commit([]storetest.Change{c.Set(1, 5)})})
					if err == nil || !strings.Contains(err.Error(), path+".wal") {
						t.Errorf("Commit: %v, want the log named", err)
					}
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if want := path + ".wal is not the log that was here"; during == "the end" && !strings.Contains(warned, want) {
				t.Errorf("warned %q, want %q", warned, want)
			}
			if b, err := os.ReadFile(path + ".wal"); err != nil || !bytes.Equal(b, foreign) {
				t.Errorf("the other's log was touched: %v", err)
			}
			for _, suffix := range []string{"", ".away"} { // ours, which needs it or not
				if err := os.Rename(path+".wal"+suffix, path+".wal"+suffix+"1"); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(path+".wal.away1", path+".wal"); err != nil {
				t.Fatal(err)
			}
			storetest.Verify(t, open(t, path), was)
		})
	}
}

// An error of the system says nothing about what is in the log: nobody is told to move
// it away.
func TestLogThatCannotBeReadIsNotCalledDamaged(t *testing.T) {
	_, _, _, path := logged(t, 5)
	path = killed(t, path)
	if err := os.Rename(path+".wal", path+".wal.away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".wal", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := bolt.Open(path, bolt.Options{})
	if err == nil || !strings.Contains(err.Error(), path+".wal: is a directory") || strings.Contains(err.Error(), "move") {
		t.Errorf("Open: %v", err)
	}
}

func TestLogThatIsCutOffIsRefused(t *testing.T) {
	_, _, _, path := logged(t, 5)
	path = killed(t, path)
	if err := os.Truncate(path+".wal", wal.Block); err != nil {
		t.Fatal(err)
	}
	_, err := bolt.Open(path, bolt.Options{})
	if err == nil || !strings.Contains(err.Error(), path+".wal is cut off, at 4096 octets") {
		t.Errorf("Open: %v", err)
	}
}

// A database of format 1 is served, and is format 2 once it has a log.
func TestFormat1(t *testing.T) {
	s, c, _, path := logged(t, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	format := func(do func(b *bbolt.Bucket) error) {
		t.Helper()
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := db.Update(func(tx *bbolt.Tx) error { return do(tx.Bucket([]byte("ddns"))) }); err != nil {
			t.Fatal(err)
		}
	}
	format(func(b *bbolt.Bucket) error {
		if err := b.Delete([]byte("log")); err != nil {
			return err
		}
		return b.Put([]byte("format"), bolt.Seal([]byte("format"), []byte{1}))
	})
	s = open(t, path)
	storetest.Verify(t, s, c)
	if err := s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(1, 5)})}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	format(func(b *bbolt.Bucket) error {
		if v := b.Get([]byte("format")); len(v) == 0 || v[0] != 2 {
			return fmt.Errorf("format is %v", v)
		}
		return nil
	})
	storetest.Verify(t, open(t, path), c)
}

func FuzzDecodeRecord(f *testing.F) {
	c := storetest.NewChain("dyn.example.org.")
	zones := []store.ZoneCommit{c.Create(3), c.Commit([]storetest.Change{c.Set(1, 2)}, []storetest.Change{c.Set(2, 2)})}
	for i := range zones {
		f.Add(bolt.EncodeRecord(zones[i : i+1]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		zones, err := bolt.DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := bolt.DecodeRecord(bolt.EncodeParts(zones))
		if err != nil {
			t.Fatalf("what was decoded cannot be decoded: %v", err)
		}
		if fmt.Sprint(again) != fmt.Sprint(zones) {
			t.Errorf("%v became %v", zones, again)
		}
	})
}

// TestEverythingAtOnce commits, reads, follows, copies and fails the handle at the same
// time: nothing waits for ever, and every commit has one outcome.
func TestEverythingAtOnce(t *testing.T) {
	s, c, _, path := logged(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var others sync.WaitGroup
	beside := func(pause time.Duration, do func(i int) error) {
		others.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := do(i); err != nil && !strings.Contains(err.Error(), "fault of the test") {
					t.Error(err)
				}
				time.Sleep(pause)
			}
		})
	}
	origin := c.Origin
	beside(0, func(int) error { // a journal has no gap, whatever is moved meanwhile
		st, _, err := s.Load(ctx, origin, nil)
		if err != nil {
			return err
		}
		next := max(st.Oldest, st.Last-min(st.Last, 30)+1)
		for e, err := range s.Journal(nilContext, origin, next-1, math.MaxUint64) {
			if errors.Is(err, store.ErrTrimmed) {
				return nil
			}
			if err != nil {
				return err
			}
			if e.Position != next {
				return fmt.Errorf("journal: %d, want %d", e.Position, next)
			}
			next++
		}
		if next <= st.Last {
			return fmt.Errorf("the journal ends before %d, the state was at %d", next, st.Last)
		}
		return nil
	})
	beside(5*time.Millisecond, func(i int) error {
		st, _, err := s.Load(nilContext, origin, nil)
		if err != nil {
			return err
		}
		return s.Advance(nilContext, store.Advance{Follower: "f", Cursors: map[zone.Name]store.Position{origin: st.Last}, Put: []store.Item{{Key: "k", Value: fmt.Append(nil, i)}}})
	})
	beside(50*time.Millisecond, func(int) error {
		copied := filepath.Join(t.TempDir(), "copy.db")
		var b bytes.Buffer
		if _, err := s.Backup(nilContext, &b); err != nil {
			if strings.Contains(err.Error(), "recovering") {
				return nil
			}
			return err
		}
		replace(t, copied, b.Bytes())
		o, err := bolt.Open(copied, bolt.Options{Warn: func(m string) { t.Error(m) }})
		if err != nil {
			return err
		}
		return errors.Join(o.Check(nilContext), o.Close())
	})
	beside(200*time.Millisecond, func(int) error {
		s.Retire(errors.New("a fault of the test"), false)
		return nil
	})
	failed := 0
	for i := 0; ctx.Err() == nil; i++ {
		was := c.Clone()
		zc := c.Commit([]storetest.Change{c.Set(i%60, i)})
		if c.State.Last > 200 {
			zc = c.Trim(zc, c.State.Last-100)
		}
		if err := s.Commit(nilContext, []store.ZoneCommit{zc}); err != nil {
			failed++
			st, _, err := s.Load(nilContext, origin, nil)
			if err != nil {
				t.Fatal(err)
			}
			if st.Last == was.State.Last {
				c = was
			}
		}
	}
	others.Wait()
	t.Logf("at %d, %d commits failed", c.State.Last, failed)
	storetest.Verify(t, s, c)
	if err := errors.Join(s.Check(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, open(t, path), c)
}

// Recovery moves what the log holds, however much that is.
func TestRecoversWithMuchInTheLog(t *testing.T) {
	s, c, _, path := logged(t, 600)
	s.Retire(errors.New("a fault of the test"), false)
	storetest.Verify(t, s, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Verify(t, open(t, path), c)
}

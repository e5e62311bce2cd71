package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// long is more entries than a store reads at a time.
const long = 700

func longJournal(t *testing.T, s store.Store) *Chain {
	t.Helper()
	c := NewChain("example.org.")
	commit(t, s, c.Create(10))
	for c.State.Last < long {
		var groups [][]Change
		for i := range 50 {
			groups = append(groups, []Change{c.Set(i, i+int(c.State.Last))})
		}
		commit(t, s, c.Commit(groups...))
	}
	return c
}

func positions(s store.Store, t *testing.T, origin zone.Name, after, upto store.Position) (got []store.Position, err error) {
	for e, err := range s.Journal(t.Context(), origin, after, upto) {
		if err != nil {
			return got, err
		}
		got = append(got, e.Position)
	}
	return got, nil
}

func testJournalRange(t *testing.T, b Backend) {
	s := b.Open(t)
	c := longJournal(t, s)
	last := c.State.Last
	tests := []struct{ after, upto, first, last store.Position }{
		{0, math.MaxUint64, 1, last},
		{0, 1, 1, 1},
		{0, 0, 0, 0},
		{5, 5, 0, 0},
		{5, 3, 0, 0},
		{5, 6, 6, 6},
		{255, 257, 256, 257},
		{0, 256, 1, 256},
		{256, 512, 257, 512},
		{last - 1, last, last, last},
		{last, math.MaxUint64, 0, 0},
		{math.MaxUint64, math.MaxUint64, 0, 0},
	}
	for _, tt := range tests {
		got, err := positions(s, t, c.Origin, tt.after, tt.upto)
		var want []store.Position
		for p := tt.first; p != 0 && p <= tt.last; p++ {
			want = append(want, p)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d up to %d: got %d entries, %v, want from %d to %d", tt.after, tt.upto, len(got), err, tt.first, tt.last)
		}
	}
	for e, err := range s.Journal(t.Context(), c.Origin, 0, last) {
		if err != nil || e.Position == 300 {
			break // left early, in the middle of a batch
		}
	}
	commit(t, s, c.Commit([]Change{c.Set(1, 77)}))
	Verify(t, s, c)
}

func testTrim(t *testing.T, b Backend) {
	s := b.Open(t)
	c := longJournal(t, s)
	commit(t, s, c.Trim(c.Commit([]Change{c.Set(1, 1)}), 100))
	Verify(t, s, c)
	got, err := positions(s, t, c.Origin, 98, math.MaxUint64)
	wantErr(t, "from before the oldest", err, store.ErrTrimmed)
	if len(got) != 0 {
		t.Errorf("entries in front of ErrTrimmed: %v", got)
	}
	if got, err := positions(s, t, c.Origin, 99, 101); err != nil || len(got) != 2 {
		t.Errorf("from the oldest: got %v, %v", got, err)
	}
	// Trimming backwards trims nothing.
	commit(t, s, c.Trim(c.Commit([]Change{c.Set(1, 2)}), 50))
	Verify(t, s, c)

	// A reader is overtaken between two batches.
	var seen int
	for _, err = range s.Journal(t.Context(), c.Origin, 99, math.MaxUint64) {
		if seen++; seen == 1 {
			commit(t, s, c.Trim(c.Commit([]Change{c.Set(1, 3)}), 600))
		}
	}
	wantErr(t, "overtaken", err, store.ErrTrimmed)

	// Everything goes, the entries of the same commit too.
	last := c.State.Last
	commit(t, s, c.Trim(c.Commit([]Change{c.Set(1, 4)}, []Change{c.Set(1, 5)}), last+3))
	if c.State.Oldest != c.State.Last+1 {
		t.Fatalf("oldest %d, last %d", c.State.Oldest, c.State.Last)
	}
	Verify(t, s, c)
	if _, err := positions(s, t, c.Origin, c.State.Last-1, math.MaxUint64); err == nil {
		t.Error("the last entry is still there")
	}
	if b.Reopen != nil {
		s = b.Reopen(t, s)
	}
	commit(t, s, c.Commit([]Change{c.Set(1, 6)}))
	Verify(t, s, c)

	// Some of a commit's own entries.
	last = c.State.Last
	commit(t, s, c.Trim(c.Commit([]Change{c.Set(1, 7)}, []Change{c.Set(1, 8)}, []Change{c.Set(1, 9)}), last+2))
	Verify(t, s, c)
}

func testJournalCommits(t *testing.T, b Backend) {
	s := b.Open(t)
	c := longJournal(t, s)
	n := 0
	for _, err := range s.Journal(t.Context(), c.Origin, 0, math.MaxUint64) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%100 == 0 && n <= long {
			commit(t, s, c.Commit([]Change{c.Set(n, n)}))
		}
	}
	if n != int(c.State.Last) {
		t.Errorf("yielded %d entries, the zone is at %d", n, c.State.Last)
	}
}

func items(t *testing.T, s store.Store, follower, from string) map[string]string {
	t.Helper()
	got := make(map[string]string)
	last := ""
	for it, err := range s.Items(follower, from) {
		if err != nil {
			t.Fatalf("Items: %v", err)
		}
		if it.Key <= last {
			t.Fatalf("Items: %q after %q", it.Key, last)
		}
		last = it.Key
		got[it.Key] = string(it.Value)
	}
	return got
}

func testAdvance(t *testing.T, b Backend) {
	s := b.Open(t)
	c, d := NewChain("example.org."), NewChain("example.com.")
	commit(t, s, c.Create(1), d.Create(1))
	commit(t, s, c.Commit([]Change{c.Set(0, 1)}))
	advance := func(a store.Advance) {
		t.Helper()
		if err := s.Advance(t.Context(), a); err != nil {
			t.Fatalf("Advance: %v", err)
		}
	}
	advance(store.Advance{Follower: "hooks", Cursors: map[zone.Name]store.Position{c.Origin: 1}, Put: []store.Item{{Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")}, {Key: "c", Value: nil}}})
	advance(store.Advance{Follower: "hooks", Cursors: map[zone.Name]store.Position{d.Origin: 0, c.Origin: 2}, Delete: []string{"a", "b", "zz"}, Put: []store.Item{{Key: "b", Value: []byte("3")}, {Key: "d", Value: []byte("4")}, {Key: "d", Value: []byte("5")}}})
	advance(store.Advance{Follower: "notes", Put: []store.Item{{Key: "a", Value: []byte("other")}}})
	advance(store.Advance{Follower: "notes"})
	check := func(s store.Store) {
		t.Helper()
		cursors, err := s.Cursors("hooks")
		if want := map[zone.Name]store.Position{c.Origin: 2, d.Origin: 0}; err != nil || !maps.Equal(cursors, want) {
			t.Errorf("Cursors: got %v, %v, want %v", cursors, err, want)
		}
		if got, want := items(t, s, "hooks", ""), map[string]string{"b": "3", "c": "", "d": "5"}; !maps.Equal(got, want) {
			t.Errorf("Items: got %v, want %v", got, want)
		}
		if got, want := items(t, s, "notes", ""), map[string]string{"a": "other"}; !maps.Equal(got, want) {
			t.Errorf("Items: got %v, want %v", got, want)
		}
		if f, err := s.Followers(); err != nil || !slices.Equal(f, []string{"hooks"}) {
			t.Errorf("Followers: got %v, %v", f, err)
		}
	}
	check(s)
	if b.Reopen != nil {
		check(b.Reopen(t, s))
	}
}

func testItems(t *testing.T, b Backend) {
	s := b.Open(t)
	var put []store.Item
	for i := range long {
		put = append(put, store.Item{Key: fmt.Sprintf("%04d", i*9%long), Value: fmt.Append(nil, i)})
	}
	if err := s.Advance(t.Context(), store.Advance{Follower: "f", Put: put}); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]int{"": long, "0000": long, "0001": long - 1, "0255": long - 255, "02555": long - 256, "0699": 1, "0700": 0, "x": 0} {
		if got := items(t, s, "f", from); len(got) != want {
			t.Errorf("from %q: got %d items, want %d", from, len(got), want)
		}
	}
	for range s.Items("f", "") {
		break
	}
	// A consumer may delete what it is given.
	n := 0
	for it, err := range s.Items("f", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if n%50 == 0 {
			if err := s.Advance(t.Context(), store.Advance{Follower: "f", Delete: []string{it.Key}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := items(t, s, "f", ""); n != long || len(got) != long-long/50 {
		t.Errorf("yielded %d, left %d", n, len(got))
	}
}

func testAdvanceConflict(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	commit(t, s, c.Create(1))
	for _, cursors := range []map[zone.Name]store.Position{{c.Origin: 2}, {c.Host(1): 0}} {
		wantErr(t, fmt.Sprint(cursors), s.Advance(t.Context(), store.Advance{Follower: "f", Cursors: cursors, Put: []store.Item{{Key: "k", Value: nil}}}), store.ErrConflict)
	}
	if got := items(t, s, "f", ""); len(got) != 0 {
		t.Errorf("items of an advance that conflicted: %v", got)
	}
}

func testAdvanceRefused(t *testing.T, b Backend) {
	s := b.Open(t)
	big := string(make([]byte, store.MaxKey+1))
	for name, a := range map[string]store.Advance{
		"no follower":    {Put: []store.Item{{Key: "k", Value: nil}}},
		"long follower":  {Follower: big, Put: []store.Item{{Key: "k", Value: nil}}},
		"empty key":      {Follower: "f", Put: []store.Item{{Key: "", Value: nil}}},
		"long key":       {Follower: "f", Put: []store.Item{{Key: big, Value: nil}}},
		"delete nothing": {Follower: "f", Delete: []string{""}},
		"large value":    {Follower: "f", Put: []store.Item{{Key: "k", Value: make([]byte, store.MaxValue+1)}}},
	} {
		wantErr(t, name, s.Advance(t.Context(), a), store.ErrRefused)
	}
	if err := s.Advance(t.Context(), store.Advance{Follower: big[1:], Put: []store.Item{{Key: big[1:], Value: nil}}}); err != nil {
		t.Errorf("the longest names: %v", err)
	}
}

func testForget(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	commit(t, s, c.Create(1))
	for _, f := range []string{"a", "ab", "b"} {
		if err := s.Advance(t.Context(), store.Advance{Follower: f, Cursors: map[zone.Name]store.Position{c.Origin: 1}, Put: []store.Item{{Key: "k", Value: []byte(f)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Followers(); err != nil || !slices.Equal(f, []string{"ab", "b"}) {
		t.Errorf("Followers: got %v, %v", f, err)
	}
	if got := items(t, s, "a", ""); len(got) != 0 {
		t.Errorf("items of the forgotten: %v", got)
	}
	if got := items(t, s, "ab", ""); len(got) != 1 {
		t.Errorf("items of another: %v", got)
	}
}

func testRemove(t *testing.T, b Backend) {
	s := b.Open(t)
	c, d := NewChain("example.org."), NewChain("b.example.org.")
	commit(t, s, c.Create(100), d.Create(100))
	if err := s.Advance(t.Context(), store.Advance{Follower: "f", Cursors: map[zone.Name]store.Position{c.Origin: 1, d.Origin: 1}, Put: []store.Item{{Key: "k", Value: nil}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), c.Origin); err != nil {
		t.Fatal(err)
	}
	if b.Reopen != nil {
		s = b.Reopen(t, s)
	}
	Verify(t, s, d)
	Verify(t, s, NewChain("example.org."))
	cursors, err := s.Cursors("f")
	if want := map[zone.Name]store.Position{d.Origin: 1}; err != nil || !maps.Equal(cursors, want) {
		t.Errorf("Cursors: got %v, %v, want %v", cursors, err, want)
	}
	again := NewChain("example.org.")
	commit(t, s, again.Create(5))
	Verify(t, s, again)
}

func testSharing(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	zc := c.Create(3)
	commit(t, s, zc)
	clear(zc.Nodes)
	clear(zc.Changesets)
	Verify(t, s, c)
	value := []byte("value")
	if err := s.Advance(t.Context(), store.Advance{Follower: "f", Cursors: map[zone.Name]store.Position{c.Origin: 1}, Put: []store.Item{{Key: "k", Value: value}}}); err != nil {
		t.Fatal(err)
	}
	value[0] = 'X'
	for it := range s.Items("f", "") {
		if string(it.Value) != "value" {
			t.Errorf("item is %q", it.Value)
		}
		it.Value[0] = 'Y'
	}
	if got := items(t, s, "f", "")["k"]; got != "value" {
		t.Errorf("item is %q", got)
	}
	cursors, _ := s.Cursors("f")
	cursors[c.Origin] = 0
	if cursors, _ := s.Cursors("f"); cursors[c.Origin] != 1 {
		t.Errorf("cursor is %d", cursors[c.Origin])
	}
}

func testBackup(t *testing.T, b Backend) {
	s := b.Open(t)
	if b.Restore == nil {
		_, err := s.Backup(t.Context(), new(bytes.Buffer))
		wantErr(t, "Backup", err, store.ErrRefused)
		return
	}
	c := NewChain("example.org.")
	commit(t, s, c.Create(2000))
	// Each Write lets a commit pass, so that the copy is made under way.
	was := c.Clone()
	var buf bytes.Buffer
	n, err := s.Backup(t.Context(), writerFunc(func(p []byte) (int, error) {
		commit(t, s, c.Commit([]Change{c.Set(buf.Len()%2000, buf.Len())}))
		return buf.Write(p)
	}))
	if err != nil || n != int64(buf.Len()) {
		t.Fatalf("Backup: %d, %v, wrote %d", n, err, buf.Len())
	}
	if c.State.Last == was.State.Last {
		t.Fatal("no commit while the backup ran")
	}
	Verify(t, b.Restore(t, buf.Bytes()), was)
	Verify(t, s, c)
	broken := fmt.Errorf("the tape is full")
	_, err = s.Backup(t.Context(), writerFunc(func([]byte) (int, error) { return 0, broken }))
	wantErr(t, "Backup to a writer that fails", err, broken)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// testConcurrent has a writer per zone, a follower, and readers that check what
// must hold at any moment.
func testConcurrent(t *testing.T, b Backend) {
	s := b.Open(t)
	const rounds = 60
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	chains := []*Chain{NewChain("a.example."), NewChain("b.example."), NewChain("c.example.")}
	for _, c := range chains {
		commit(t, s, c.Create(300))
		origin := c.Origin
		writers.Go(func() {
			for i := range rounds {
				zc := c.Commit([]Change{c.Set(i, i+5), c.Set(i+200, i)})
				if i%10 == 9 {
					zc = c.Trim(zc, c.State.Last-5)
				}
				if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
					t.Errorf("Commit: %v", err)
					return
				}
				if err := s.Advance(t.Context(), store.Advance{Follower: "f", Cursors: map[zone.Name]store.Position{origin: zc.After}, Put: []store.Item{{Key: string(origin), Value: fmt.Append(nil, zc.After)}}}); err != nil {
					t.Errorf("Advance: %v", err)
				}
			}
		})
		readers.Go(func() {
			var last store.State
			for {
				select {
				case <-done:
					return
				default:
				}
				names := 0
				st, found, err := s.Load(t.Context(), origin, func(zone.Name, zone.Node) { names++ })
				if err != nil || !found || names < 301 {
					t.Errorf("Load: %d names, %v, %v", names, found, err)
					return
				}
				if st.Last < last.Last || st.Oldest < last.Oldest || st.Serial < last.Serial {
					t.Errorf("state went from %+v to %+v", last, st)
					return
				}
				last = st
				if got, err := positions(s, t, origin, st.Last-1, st.Last); err == nil && len(got) != 1 {
					t.Errorf("Journal: %v", got)
				}
				s.Stats()
				if _, err := s.Cursors("f"); err != nil {
					t.Errorf("Cursors: %v", err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	for _, c := range chains {
		Verify(t, s, c)
	}
}

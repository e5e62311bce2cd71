package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Backend is how TestStore gets at a store.
type Backend struct {
	// Open makes an empty store that is closed when the test ends.
	Open func(t *testing.T) store.Store
	// Reopen closes a store and opens what it kept; nil when it keeps nothing.
	Reopen func(t *testing.T, s store.Store) store.Store
	// Restore opens a copy that Backup wrote; nil when there are no backups.
	Restore func(t *testing.T, backup []byte) store.Store
}

// TestStore runs the conformance suite of package store's contract.
func TestStore(t *testing.T, b Backend) {
	tests := map[string]func(*testing.T, Backend){
		"a zone that was never committed to is not found":        testAbsent,
		"what was committed is loaded, after a restart too":      testCommitLoad,
		"a commit for another position conflicts":                testConflict,
		"a commit that Load would refuse is refused":             testRefused,
		"a commit of several zones is all or nothing":            testAtomic,
		"a static digest alone is a commit":                      testStatic,
		"a nil put reads the state":                              testNilPut,
		"any octets can be in a name":                            testNames,
		"the journal yields the half-open range asked for":       testJournalRange,
		"a trimmed journal says so":                              testTrim,
		"a sequence does not hold up its own consumer's commits": testJournalCommits,
		"cursors and items move together":                        testAdvance,
		"items come in order, from a key on":                     testItems,
		"an advance past the zone conflicts":                     testAdvanceConflict,
		"a malformed advance is refused":                         testAdvanceRefused,
		"forgetting a follower leaves the others":                testForget,
		"removing a zone removes its cursors":                    testRemove,
		"values handed in and out are not shared":                testSharing,
		"a context that is done stops a call before it begins":   testContext,
		"a closed store says so":                                 testClosed,
		"a backup taken under load opens and is consistent":      testBackup,
		"readers and writers do not disturb each other":          testConcurrent,
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) { tests[name](t, b) })
	}
}

// Verify compares all that s keeps of a zone with the chain.
func Verify(t testing.TB, s store.Store, c *Chain) {
	t.Helper()
	if err := Compare(s, c); err != nil {
		t.Fatal(err)
	}
}

// Compare says in which way what s keeps of a zone differs from the chain.
func Compare(s store.Store, c *Chain) error {
	got := make(map[zone.Name]zone.Node)
	twice := false
	st, found, err := s.Load(context.Background(), c.Origin, func(owner zone.Name, n zone.Node) {
		if _, ok := got[owner]; ok {
			twice = true
		}
		got[owner] = n
	})
	if err != nil {
		return fmt.Errorf("Load: %w", err)
	}
	if found != (len(c.Nodes) > 0) {
		return fmt.Errorf("Load: found %v", found)
	}
	if !found {
		return nil
	}
	if twice {
		return errors.New("Load put an owner twice")
	}
	if st != c.State {
		return fmt.Errorf("state is %+v, want %+v", st, c.State)
	}
	if !maps.Equal(got, c.Nodes) {
		return fmt.Errorf("Load put %d owners that are not the %d committed", len(got), len(c.Nodes))
	}
	next := c.State.Oldest
	for e, err := range s.Journal(context.Background(), c.Origin, next-1, math.MaxUint64) {
		if err != nil {
			return fmt.Errorf("Journal: %w", err)
		}
		if e.Position != next || int(next) > len(c.Journal) {
			return fmt.Errorf("Journal yields %d, want %d of %d", e.Position, next, len(c.Journal))
		}
		if !bytes.Equal(e.Changeset.Encode(), c.Journal[next-1].Encode()) {
			return fmt.Errorf("Journal: entry %d is not what was committed", next)
		}
		next++
	}
	if next != c.State.Last+1 {
		return fmt.Errorf("Journal ends before %d, want %d", next, c.State.Last)
	}
	return nil
}

func commit(t testing.TB, s store.Store, zones ...store.ZoneCommit) {
	t.Helper()
	if err := s.Commit(t.Context(), zones); err != nil {
		t.Fatalf("Commit: %v", err)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func testAbsent(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	Verify(t, s, c)
	if zones, err := s.Zones(); err != nil || len(zones) != 0 {
		t.Errorf("Zones: got %v, %v", zones, err)
	}
	for e, err := range s.Journal(t.Context(), c.Origin, 0, math.MaxUint64) {
		t.Errorf("Journal yields %v, %v", e, err)
	}
	if f, err := s.Followers(); err != nil || len(f) != 0 {
		t.Errorf("Followers: got %v, %v", f, err)
	}
	if m, err := s.Cursors("nobody"); err != nil || len(m) != 0 {
		t.Errorf("Cursors: got %v, %v", m, err)
	}
	for it, err := range s.Items("nobody", "") {
		t.Errorf("Items yields %v, %v", it, err)
	}
	if err := errors.Join(s.Forget(t.Context(), "nobody"), s.Remove(t.Context(), c.Origin), s.Commit(t.Context(), nil)); err != nil {
		t.Errorf("forgetting and removing nothing: %v", err)
	}
}

func testCommitLoad(t *testing.T, b Backend) {
	s := b.Open(t)
	c, d := NewChain("example.org."), NewChain("b.example.org.")
	commit(t, s, c.Create(700))
	commit(t, s, d.Create(1))
	for i := range 40 {
		groups := [][]Change{
			{c.Set(i, i+1000), c.Set(i+900, i)},
			{c.Set(i, i+2000), {Owner: c.Host(i + 100)}},
			{{Owner: c.Host(i + 900)}},
		}
		commit(t, s, c.Commit(groups[:1+i%3]...), d.Commit([]Change{d.Set(0, i)}))
	}
	check := func(s store.Store) {
		t.Helper()
		Verify(t, s, c)
		Verify(t, s, d)
		zones, err := s.Zones()
		slices.Sort(zones)
		if want := slices.Sorted(slices.Values([]zone.Name{c.Origin, d.Origin})); err != nil || !slices.Equal(zones, want) {
			t.Errorf("Zones: got %v, %v, want %v", zones, err, want)
		}
	}
	check(s)
	if b.Reopen == nil {
		return
	}
	s = b.Reopen(t, s)
	check(s)
	commit(t, s, c.Commit([]Change{c.Set(5, 5)}))
	check(b.Reopen(t, s))
}

func testConflict(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	late := c.Clone()
	late.State.Last = 7
	wantErr(t, "commit after 7 to a zone that does not exist", s.Commit(t.Context(), []store.ZoneCommit{late.Create(1)}), store.ErrConflict)
	commit(t, s, c.Create(1))
	wantErr(t, "second creation", s.Commit(t.Context(), []store.ZoneCommit{NewChain("example.org.").Create(1)}), store.ErrConflict)
	old := c.Clone()
	commit(t, s, c.Commit([]Change{c.Set(0, 1)}))
	wantErr(t, "commit of a stale position", s.Commit(t.Context(), []store.ZoneCommit{old.Commit([]Change{c.Set(0, 2)})}), store.ErrConflict)
	Verify(t, s, c)
}

func testRefused(t *testing.T, b Backend) {
	c := NewChain("example.org.")
	create := c.Create(2)
	other := NewChain("example.com.")
	tests := []struct {
		name  string
		first bool // the commit that creates the zone, otherwise the one after
		spoil func(*store.ZoneCommit)
	}{
		{"without a name", true, func(z *store.ZoneCommit) { z.Origin = "" }},
		{"created without an SOA", true, func(z *store.ZoneCommit) { delete(z.Nodes, c.Origin) }},
		{"another serial than its SOA", true, func(z *store.ZoneCommit) { z.Serial++ }},
		{"owner of another zone", true, func(z *store.ZoneCommit) { z.Nodes[other.Host(1)] = "" }},
		{"SOA removed", false, func(z *store.ZoneCommit) { z.Nodes[c.Origin] = "" }},
		{"SOA not moved with the serial", false, func(z *store.ZoneCommit) { delete(z.Nodes, c.Origin) }},
		{"nil changeset", false, func(z *store.ZoneCommit) { z.Changesets[0] = nil }},
		{"changeset from another serial", false, func(z *store.ZoneCommit) { cs := *z.Changesets[0]; cs.From = cs.To; z.Changesets[0] = &cs }},
		{"changeset to another serial", false, func(z *store.ZoneCommit) { cs := *z.Changesets[0]; cs.To = cs.From; z.Changesets[0] = &cs }},
		{"serial moved without a changeset", false, func(z *store.ZoneCommit) { z.Changesets = nil }},
		{"trimming past the end", false, func(z *store.ZoneCommit) { z.TrimBefore = 4 }},
	}
	for _, tt := range tests {
		s := b.Open(t)
		c := c.Clone()
		z := NewChain("example.org.").Create(2)
		want := NewChain("example.org.")
		if !tt.first {
			commit(t, s, create)
			want = c.Clone()
			z = c.Commit([]Change{c.Set(1, 5)})
		}
		tt.spoil(&z)
		wantErr(t, tt.name, s.Commit(t.Context(), []store.ZoneCommit{z}), store.ErrRefused)
		Verify(t, s, want)
	}
	s := b.Open(t)
	wantErr(t, "a zone twice", s.Commit(t.Context(), []store.ZoneCommit{create, create}), store.ErrRefused)
}

func testAtomic(t *testing.T, b Backend) {
	s := b.Open(t)
	c, d := NewChain("example.org."), NewChain("example.com.")
	commit(t, s, c.Create(3), d.Create(3))
	stale := d.Clone()
	commit(t, s, d.Commit([]Change{d.Set(0, 9)}))
	was := c.Clone()
	wantErr(t, "one of two zones stale", s.Commit(t.Context(), []store.ZoneCommit{
		c.Commit([]Change{c.Set(1, 8)}), stale.Commit([]Change{d.Set(1, 8)}),
	}), store.ErrConflict)
	Verify(t, s, was)
	Verify(t, s, d)
}

func testStatic(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	first := c.Create(1)
	first.Static, c.State.Static = "one", "one"
	commit(t, s, first)
	Verify(t, s, c)
	second := c.Commit()
	second.Static, c.State.Static = "two", "two"
	commit(t, s, second)
	Verify(t, s, c)
	commit(t, s, c.Commit([]Change{c.Set(0, 4)}))
	Verify(t, s, c)
}

func testNilPut(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	if _, found, err := s.Load(t.Context(), c.Origin, nil); found || err != nil {
		t.Errorf("absent zone: got %v, %v", found, err)
	}
	commit(t, s, c.Create(3))
	if st, found, err := s.Load(t.Context(), c.Origin, nil); st != c.State || !found || err != nil {
		t.Errorf("got %+v, %v, %v, want %+v", st, found, err, c.State)
	}
}

func testNames(t *testing.T, b Backend) {
	s := b.Open(t)
	for _, origin := range []string{"example.org.", ".", `a\000b.c\001.`, `\001.`} {
		c := NewChain(origin)
		changes := []Change{}
		for i, label := range []string{`\000`, `\001`, `\002`, `\000\000`, `\001\001`, `\000.\000`, `a.\000`, `\000a`, "a", "a.a", "b.a", "a-b", "*", "*.a", `\255`, `\255\255`, `\.`, "_x._y"} {
			name := label + "."
			if origin != "." {
				name += origin
			}
			changes = append(changes, Change{zone.MustName(name), Address(i)})
		}
		long := c.Origin
		for len(long)+64 <= zone.MaxNameLength {
			long = "\x3f" + zone.Name(bytes.Repeat([]byte{1}, 63)) + long
		}
		deep := c.Origin
		for len(deep)+2 <= zone.MaxNameLength {
			deep = "\x01\x00" + deep
		}
		changes = append(changes, Change{long, Address(100)}, Change{deep, Address(101)})
		slices.SortFunc(changes, func(a, b Change) int { return a.Owner.Compare(b.Owner) })
		commit(t, s, c.Commit(changes))
		commit(t, s, c.Commit([]Change{{Owner: deep}, {Owner: changes[3].Owner, Address: Address(7)}}))
		Verify(t, s, c)
	}
	if zones, err := s.Zones(); err != nil || len(zones) != 4 {
		t.Errorf("Zones: got %v, %v", zones, err)
	}
}

func testContext(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	commit(t, s, c.Create(2000))
	was := c.Clone()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, "Commit", s.Commit(ctx, []store.ZoneCommit{c.Commit([]Change{c.Set(1, 5)})}), context.Canceled)
	wantErr(t, "Advance", s.Advance(ctx, store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}}), context.Canceled)
	_, _, err := s.Load(ctx, c.Origin, func(zone.Name, zone.Node) {})
	wantErr(t, "Load", err, context.Canceled)
	for _, err := range s.Journal(ctx, c.Origin, 0, 1) {
		wantErr(t, "Journal", err, context.Canceled)
	}
	Verify(t, s, was)
}

func testClosed(t *testing.T, b Backend) {
	s := b.Open(t)
	c := NewChain("example.org.")
	commit(t, s, c.Create(1))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_, err := s.Zones()
	wantErr(t, "Zones", err, store.ErrClosed)
	_, _, err = s.Load(t.Context(), c.Origin, nil)
	wantErr(t, "Load", err, store.ErrClosed)
	wantErr(t, "Commit", s.Commit(t.Context(), []store.ZoneCommit{c.Commit([]Change{c.Set(0, 1)})}), store.ErrClosed)
	err = nil
	for _, err = range s.Journal(t.Context(), c.Origin, 0, 1) {
	}
	wantErr(t, "Journal", err, store.ErrClosed)
	_, err = s.Cursors("f")
	wantErr(t, "Cursors", err, store.ErrClosed)
	_, err = s.Followers()
	wantErr(t, "Followers", err, store.ErrClosed)
	err = nil
	for _, err = range s.Items("f", "") {
	}
	wantErr(t, "Items", err, store.ErrClosed)
	wantErr(t, "Advance", s.Advance(t.Context(), store.Advance{Follower: "f", Put: []store.Item{{Key: "k"}}}), store.ErrClosed)
	wantErr(t, "Forget", s.Forget(t.Context(), "f"), store.ErrClosed)
	wantErr(t, "Remove", s.Remove(t.Context(), c.Origin), store.ErrClosed)
	if b.Restore != nil {
		_, err = s.Backup(t.Context(), new(bytes.Buffer))
		wantErr(t, "Backup", err, store.ErrClosed)
	}
	s.Stats()
}

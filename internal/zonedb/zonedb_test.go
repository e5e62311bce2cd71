package zonedb_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

var origin = zone.MustName("example.org")

const zoneText = `
@    3600 SOA ns1 hostmaster 1 3600 600 86400 60
@    3600 NS  ns1
ns1  3600 A   192.0.2.53
`

// records reads a zone file.
func records(t testing.TB, text string) []zone.RRset {
	t.Helper()
	sets, err := zone.ReadFile(strings.NewReader(text), "test.zone", origin)
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

func spec(t testing.TB, text string) zonedb.Spec {
	return zonedb.Spec{Origin: origin, Static: records(t, text), Source: "file"}
}

// open starts a database on a store and attaches the zone.
func open(t testing.TB, s store.Store, o zonedb.Options) (*zonedb.DB, *zonedb.Zone) {
	t.Helper()
	db, err := zonedb.Open(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.Attach(t.Context(), []zonedb.Spec{spec(t, zoneText)}); err != nil {
		t.Fatal(err)
	}
	return db, db.Zone(origin)
}

// host is the update that gives a name one address.
func host(name string, address string) zone.Update {
	owner := zone.MustName(name + ".example.org")
	addr := netip.MustParseAddr(address)
	set, err := zone.NewRRset(&dns.A{Hdr: dns.RR_Header{Name: owner.String(), Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: addr.AsSlice()})
	if err != nil {
		panic(err)
	}
	return zone.Update{Operations: zone.ReplaceRRset(set), Cause: zone.Cause{Source: "test"}}
}

func address(n int) string { return fmt.Sprintf("198.51.%d.%d", n/250%250, n%250+1) }

// has reports the address of a host in a version, "" without one.
func has(v *zone.Version, name string) string {
	set, ok := v.RRset(zone.MustName(name+".example.org"), dns.TypeA)
	if !ok {
		return ""
	}
	return set.RRs()[0].(*dns.A).A.String()
}

func update(t testing.TB, z *zonedb.Zone, u zone.Update) zonedb.Result {
	t.Helper()
	r, err := z.Update(t.Context(), u)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return r
}

func TestUpdateIsVisibleWhenItReturns(t *testing.T) {
	_, z := open(t, mem.New(), zonedb.Options{})
	before := z.Version()
	r := update(t, z, host("a", "192.0.2.1"))
	if !r.Changed || has(z.Version(), "a") != "192.0.2.1" || has(r.Version, "a") != "192.0.2.1" {
		t.Errorf("got changed=%v a=%q, want the new address", r.Changed, has(z.Version(), "a"))
	}
	if has(before, "a") != "" {
		t.Error("the version from before the update has changed")
	}
	if !r.Serial.Newer(before.Serial()) || r.Serial != z.Version().Serial() {
		t.Errorf("got serial %d after %d, zone at %d", r.Serial, before.Serial(), z.Version().Serial())
	}
}

func TestUnchangedCostsNoSerialAndNoCommit(t *testing.T) {
	s := storetest.NewFaulty(mem.New())
	_, z := open(t, s, zonedb.Options{})
	first := update(t, z, host("a", "192.0.2.1"))
	commits := s.Calls(storetest.Commit)
	second := update(t, z, host("a", "192.0.2.1"))
	if second.Changed || second.Serial != first.Serial || second.Position != 0 {
		t.Errorf("got %+v, want unchanged at serial %d", second, first.Serial)
	}
	if got := s.Calls(storetest.Commit); got != commits {
		t.Errorf("got %d commits for nothing", got-commits)
	}
}

func TestSerialTakesOneStepPerChangesetAndTheTimeWhenLater(t *testing.T) {
	now := time.Unix(5000, 0)
	_, z := open(t, mem.New(), zonedb.Options{Now: func() time.Time { return now }})
	var got []zone.Serial
	for n := range 3 {
		got = append(got, update(t, z, host("a", address(n))).Serial)
	}
	if got[1] != got[0]+1 || got[2] != got[1]+1 {
		t.Errorf("got serials %v, want steps of one within a second", got)
	}
	now = time.Unix(9000, 0)
	if r := update(t, z, host("a", "192.0.2.9")); r.Serial != 9000 {
		t.Errorf("got serial %d, want the time 9000", r.Serial)
	}
}

func TestRefusedUpdateFailsAloneInItsBatch(t *testing.T) {
	s := storetest.NewFaulty(mem.New())
	_, z := open(t, s, zonedb.Options{})
	// Held at the first commit, everything else becomes one batch.
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	s.Inject(storetest.Commit, storetest.Fault{Gate: gate, Entered: entered})
	results := make(chan error, 12)
	go func() { _, err := z.Update(context.Background(), host("first", "192.0.2.1")); results <- err }()
	<-entered
	s.Heal()
	for n := range 10 {
		go func() {
			_, err := z.Update(context.Background(), host(fmt.Sprintf("h%d", n), address(n)))
			results <- err
		}()
	}
	go func() {
		_, err := z.Update(context.Background(), host("ns1", "192.0.2.99")) // the file's name
		if e := new(zone.Error); !errors.As(err, &e) || e.Code != zone.CodeStatic {
			results <- fmt.Errorf("update of a static name: got %v, want %s", err, zone.CodeStatic)
			return
		}
		results <- nil
	}()
	close(gate)
	for range 12 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	for n := range 10 {
		if got := has(z.Version(), fmt.Sprintf("h%d", n)); got != address(n) {
			t.Errorf("h%d: got %q, want %s", n, got, address(n))
		}
	}
	if got := has(z.Version(), "ns1"); got != "192.0.2.53" {
		t.Errorf("ns1: got %q, want the file's address", got)
	}
}

// TestFaults is the matrix of what may go wrong in the store against what is
// answered, what is visible, and what a restart shows.
func TestFaults(t *testing.T) {
	full := storetest.ErrFull
	tests := []struct {
		name      string
		step      storetest.Step
		fault     storetest.Fault
		wantErr   error  // of the update during the fault
		wantAfter string // of the name once the fault is over, before any other update
	}{
		{"commit fails and is not persisted", storetest.Commit, storetest.Fault{Times: 1}, zonedb.ErrUnavailable, ""},
		{"commit fails but is persisted", storetest.Commit, storetest.Fault{Times: 1, Persisted: true}, zonedb.ErrUnavailable, "192.0.2.1"},
		{"the disk is full", storetest.Commit, storetest.Fault{Times: 1, Err: full}, zonedb.ErrUnavailable, ""},
		{"the disk is full but it was persisted", storetest.Commit, storetest.Fault{Times: 1, Err: full, Persisted: true}, zonedb.ErrUnavailable, "192.0.2.1"},
		{"somebody else wrote, then not", storetest.Commit, storetest.Fault{Times: 1, Err: store.ErrConflict}, nil, "192.0.2.1"},
		{"somebody else writes all the time", storetest.Commit, storetest.Fault{Times: 5, Err: store.ErrConflict}, zonedb.ErrUnavailable, ""},
		{"the store refuses", storetest.Commit, storetest.Fault{Times: 1, Err: store.ErrRefused}, store.ErrRefused, ""},
	}
	for _, test := range tests {
		for _, load := range []string{"is read at once", "cannot be read at first", "cannot give its journal"} {
			t.Run(test.name+", the store "+load, func(t *testing.T) {
				inner := mem.New()
				s := storetest.NewFaulty(keepOpen{inner})
				db, z := open(t, s, zonedb.Options{})
				update(t, z, host("before", "192.0.2.7"))
				serial := z.Version().Serial()

				s.Inject(test.step, test.fault)
				switch load {
				case "cannot be read at first":
					s.Inject(storetest.Load, storetest.Fault{Times: 2})
				case "cannot give its journal":
					s.Inject(storetest.Journal, storetest.Fault{Times: 1})
				}
				_, err := z.Update(t.Context(), host("a", "192.0.2.1"))
				if test.wantErr == nil && load != "is read at once" {
					// Catching up after a conflict needs the store too.
					if err != nil && !errors.Is(err, zonedb.ErrUnavailable) {
						t.Errorf("got error %v", err)
					}
				} else if !errors.Is(err, test.wantErr) {
					t.Errorf("got error %v, want %v", err, test.wantErr)
				}
				if has(z.Version(), "before") != "192.0.2.7" {
					t.Error("an answer from before the fault is gone")
				}
				s.Inject(test.step, storetest.Fault{})
				writable(t, db)
				if test.wantErr != nil {
					if got := has(z.Version(), "a"); got != test.wantAfter {
						t.Errorf("after recovery: got a=%q, want %q", got, test.wantAfter)
					}
				}
				if z.Version().Serial().Compare(serial) == zone.Lower {
					t.Errorf("serial went back from %d to %d", serial, z.Version().Serial())
				}
				r := update(t, z, host("after", "192.0.2.8"))

				// A restart shows exactly what was visible.
				want := dump(z.Version())
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				_, again := open(t, inner, zonedb.Options{})
				if got := dump(again.Version()); got != want {
					t.Errorf("after a restart:\n%s\nwant:\n%s", got, want)
				}
				if again.Version().Serial() != r.Serial {
					t.Errorf("after a restart: serial %d, want %d", again.Version().Serial(), r.Serial)
				}
			})
		}
	}
}

// keepOpen is a store that outlives the database on it, as a disk does.
type keepOpen struct{ store.Store }

func (keepOpen) Close() error { return nil }

// writable waits until updates are taken again.
func writable(t *testing.T, db *zonedb.DB) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for db.State() != zonedb.Writable {
		if time.Now().After(deadline) {
			t.Fatal("the database did not recover")
		}
		time.Sleep(time.Millisecond)
	}
}

// dump is a version's content as text.
func dump(v *zone.Version) string {
	var b strings.Builder
	lines := map[string]bool{}
	for rr := range v.AXFR() {
		lines[rr.String()] = true
	}
	for _, l := range sorted(lines) {
		b.WriteString(l + "\n")
	}
	return b.String()
}

func TestQueriesAndOtherUpdatesWhileTheStoreBlocks(t *testing.T) {
	s := storetest.NewFaulty(mem.New())
	_, z := open(t, s, zonedb.Options{})
	update(t, z, host("a", "192.0.2.1"))
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	s.Inject(storetest.Commit, storetest.Fault{Gate: gate, Entered: entered})
	done := make(chan error, 1)
	go func() { _, err := z.Update(context.Background(), host("a", "192.0.2.2")); done <- err }()
	<-entered
	for range 1000 { // none of these may wait
		if got := has(z.Version(), "a"); got != "192.0.2.1" {
			t.Fatalf("got %q while the commit runs, want the address from before", got)
		}
	}
	// The context bounds the wait of one that is still queued.
	ctx, cancel := context.WithCancel(t.Context())
	queued := make(chan error, 1)
	go func() { _, err := z.Update(ctx, host("b", "192.0.2.3")); queued <- err }()
	cancel()
	if err := <-queued; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled update in the queue: got %v", err)
	}
	s.Heal()
	close(gate)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := has(z.Version(), "b"); got != "" {
		t.Errorf("the cancelled update was applied: b=%q", got)
	}
}

func TestCloseRefusesUpdatesAndKeepsAnswering(t *testing.T) {
	db, z := open(t, mem.New(), zonedb.Options{})
	update(t, z, host("a", "192.0.2.1"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := z.Update(t.Context(), host("a", "192.0.2.2")); !errors.Is(err, zonedb.ErrStopped) {
		t.Errorf("got %v, want ErrStopped", err)
	}
	if got := has(z.Version(), "a"); got != "192.0.2.1" {
		t.Errorf("got %q after Close, want the address", got)
	}
}

func TestJournalReplaysToTheState(t *testing.T) {
	db, z := open(t, mem.New(), zonedb.Options{})
	start := z.Version()
	from := db.Last(origin)
	for n := range 120 { // fewer than would be trimmed
		update(t, z, host(fmt.Sprintf("h%d", n%40), address(n)))
	}
	c := start.Candidate()
	for e, err := range db.Journal(t.Context(), origin, from, math.MaxUint64) {
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(e.Changeset); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := dump(c.Version()), dump(z.Version()); got != want {
		t.Errorf("replayed:\n%s\nwant:\n%s", got, want)
	}
}

func TestJournalIsTrimmedButNotPastACursor(t *testing.T) {
	db, z := open(t, mem.New(), zonedb.Options{})
	short := spec(t, zoneText)
	short.Journal = 10
	if _, err := db.Merge(t.Context(), []zonedb.Spec{short}); err != nil {
		t.Fatal(err)
	}
	for n := range 4 { // the zone's creation was the first
		update(t, z, host("b", address(n)))
	}
	if err := db.Advance(t.Context(), store.Advance{Follower: "slow", Cursors: map[zone.Name]store.Position{origin: 5}}); err != nil {
		t.Fatal(err)
	}
	count := func(after store.Position) (n int, err error) {
		for _, e := range db.Journal(t.Context(), origin, after, math.MaxUint64) {
			if e != nil {
				return n, e
			}
			n++
		}
		return n, nil
	}
	for n := range 1000 {
		update(t, z, host("a", address(n)))
	}
	if n, err := count(5); err != nil || n != 1000 {
		t.Errorf("behind a cursor: got %d entries and %v, want 1000", n, err)
	}
	if _, err := count(0); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("before the cursor: got %v, want ErrTrimmed", err)
	}
	if err := db.Advance(t.Context(), store.Advance{Follower: "slow", Cursors: map[zone.Name]store.Position{origin: 1005}}); err != nil {
		t.Fatal(err)
	}
	update(t, z, host("a", "192.0.2.1"))
	if _, err := count(5); !errors.Is(err, store.ErrTrimmed) {
		t.Errorf("after the cursor moved: got %v, want ErrTrimmed", err)
	}
	if _, ok := z.Since(z.Version().Serial() - 5); !ok {
		t.Error("the last changes are no longer found by serial")
	}
}

func TestMergeOfTheOperatorsFile(t *testing.T) {
	inner := mem.New()
	db, z := open(t, keepOpen{inner}, zonedb.Options{})
	update(t, z, host("www", "192.0.2.1"))
	merged, err := db.Merge(t.Context(), []zonedb.Spec{spec(t, zoneText+"www 300 A 192.0.2.80\nmail 300 A 192.0.2.25\n")})
	if err != nil {
		t.Fatal(err)
	}
	if m := merged[0]; !m.Changed || len(m.TakenOver) != 1 || m.TakenOver[0] != zone.MustName("www.example.org") {
		t.Errorf("got %+v, want www taken over", m)
	}
	if got := has(z.Version(), "www"); got != "192.0.2.80" {
		t.Errorf("www: got %q, want the file's", got)
	}
	if h, ok := z.Since(merged[0].Changeset.FromSerial()); !ok || h.Last != h.After+1 {
		t.Errorf("the edit is not one changeset: %+v, %v", h, ok)
	}
	again, err := db.Merge(t.Context(), []zonedb.Spec{spec(t, zoneText+"www 300 A 192.0.2.80\nmail 300 A 192.0.2.25\n")})
	if err != nil || again[0].Changed {
		t.Errorf("the same file again: got %+v, %v, want unchanged", again, err)
	}
	if _, err := db.Merge(t.Context(), []zonedb.Spec{spec(t, zoneText)}); err != nil {
		t.Fatal(err)
	}
	if got := has(z.Version(), "mail"); got != "" {
		t.Errorf("mail left the file but is still %q", got)
	}
	update(t, z, host("www", "192.0.2.1")) // free again
}

// What a merge finds unchanged is what the one before it in the batch left, not what
// is published.
func TestMergesInOneBatch(t *testing.T) {
	s := storetest.NewFaulty(mem.New())
	db, z := open(t, keepOpen{s}, zonedb.Options{})
	type outcome struct {
		zonedb.Merged
		err error
	}
	merge := func(text string) chan outcome {
		done := make(chan outcome, 1)
		go func() {
			m, err := db.Merge(context.Background(), []zonedb.Spec{spec(t, text)})
			if err != nil {
				m = make([]zonedb.Merged, 1)
			}
			done <- outcome{m[0], err}
		}()
		return done
	}
	if o := <-merge(zoneText); o.err != nil {
		t.Fatal(o.err)
	}
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	s.Inject(storetest.Commit, storetest.Fault{Gate: gate, Entered: entered})
	go z.Update(context.Background(), host("first", "192.0.2.1")) //nolint:errcheck // holds the writer
	<-entered
	s.Heal()
	other := merge(zoneText + "mail 300 A 192.0.2.25\n")
	time.Sleep(20 * time.Millisecond) // most likely queued; what is asked below holds either way
	back := merge(zoneText)
	time.Sleep(20 * time.Millisecond)
	close(gate)
	o, b := <-other, <-back
	if o.err != nil || b.err != nil {
		t.Fatal(o.err, b.err)
	}
	if !b.Changed && b.Serial == o.Serial {
		t.Errorf("the file of before, merged behind another (serial %d), was taken for unchanged; mail is %q", o.Serial, has(z.Version(), "mail"))
	}
}

// madness is a Permission that panics, as a bug in planning would.
type madness struct{}

func (madness) Permits(zone.Name, uint16) bool { panic("a bug") }
func (madness) Knows(zone.Name) bool           { panic("a bug") }

func TestPanicInPlanningFailsThatRequestAlone(t *testing.T) {
	s := storetest.NewFaulty(mem.New())
	var mu sync.Mutex
	var logged []string
	_, z := open(t, s, zonedb.Options{Log: func(level, message string) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, level+": "+message)
	}})
	gate, entered := make(chan struct{}), make(chan struct{}, 1)
	s.Inject(storetest.Commit, storetest.Fault{Gate: gate, Entered: entered})
	good := make(chan error, 6)
	go func() { _, err := z.Update(context.Background(), host("first", "192.0.2.1")); good <- err }()
	<-entered
	s.Heal()
	bad := make(chan error, 1)
	for n := range 5 {
		go func() {
			_, err := z.Update(context.Background(), host(fmt.Sprintf("h%d", n), address(n)))
			good <- err
		}()
	}
	go func() {
		u := host("mad", "192.0.2.66")
		u.Permission = madness{}
		_, err := z.Update(context.Background(), u)
		bad <- err
	}()
	close(gate)
	for range 6 {
		if err := <-good; err != nil {
			t.Errorf("beside it: %v", err)
		}
	}
	var refused *zone.Error
	if err := <-bad; err == nil || errors.As(err, &refused) || errors.Is(err, zonedb.ErrUnavailable) {
		t.Errorf("got %v, want an error of ours", err)
	}
	if got := has(z.Version(), "mad"); got != "" {
		t.Errorf("it was made: %q", got)
	}
	update(t, z, host("after", "192.0.2.2"))
	mu.Lock()
	defer mu.Unlock()
	if len(logged) != 1 || !strings.HasPrefix(logged[0], "error: ") || !strings.Contains(logged[0], "a bug") {
		t.Errorf("logged %q, want one error with the panic", logged)
	}
}

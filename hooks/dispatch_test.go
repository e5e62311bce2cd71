package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

type (
	hookRequest = hooksv1.Hook
	executed    = hooksv1.ExecuteHookResponse
)

func TestEventsOfChanges(t *testing.T) {
	for _, tt := range []struct {
		name    string
		before  []string // changes that nobody is told
		changes [][]string
		want    []string
	}{
		{"first address", nil, [][]string{{"www 60 A 192.0.2.1"}}, []string{`added www A: "" -> "192.0.2.1"`}},
		{"another address", []string{"www 60 A 192.0.2.1"}, [][]string{{"www 60 A 192.0.2.2"}}, []string{`changed www A: "192.0.2.1" -> "192.0.2.2"`}},
		{"one address more shows the whole RRset", []string{"www 60 A 192.0.2.1"}, [][]string{{"www 60 A 192.0.2.1", "www 60 A 192.0.2.2"}},
			[]string{`changed www A: "192.0.2.1" -> "192.0.2.1 192.0.2.2"`}},
		{"no address any more", []string{"www 60 A 192.0.2.1"}, [][]string{{"www A"}}, []string{`removed www A: "192.0.2.1" -> ""`}},
		{"the same again is nothing", []string{"www 60 A 192.0.2.1"}, [][]string{{"www 60 A 192.0.2.1"}}, nil},
		{"another TTL alone is a change", []string{"www 60 A 192.0.2.1"}, [][]string{{"www 90 A 192.0.2.1"}}, []string{`changed www A: "192.0.2.1" -> "192.0.2.1"`}},
		{"both families at once are two events", nil, [][]string{{"www 60 AAAA 2001:db8::1", "www 60 A 192.0.2.1"}},
			[]string{`added www A: "" -> "192.0.2.1"`, `added www AAAA: "" -> "2001:db8::1"`}},
		{"octets without a format are digits, not a line end", nil, [][]string{{`www 60 NULL \# 2 0a00`}}, []string{`added www NULL: "" -> "\\# 2 0a00"`}},
		{"text keeps its quotes and escapes", nil, [][]string{{`www 60 TXT "a b" "c\"\010"`}}, []string{`added www TXT: "" -> "\"a b\" \"c\\\"\\010\""`}},
		{"an unknown type is told as RFC 3597 writes it", nil, [][]string{{`www 60 TYPE65280 \# 3 0a0b0c`}}, []string{`added www TYPE65280: "" -> "\\# 3 0a0b0c"`}},
		{"mail exchanger", nil, [][]string{{"www 60 MX 10 mail.example.org."}}, []string{`added www MX: "" -> "10 mail.example.org."`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, hookFor("h"))
				defer w.stop()
				for _, line := range tt.before {
					w.settled(line)
				}
				n := len(w.stage.seen())
				for _, change := range tt.changes {
					w.settled(change...)
				}
				wantLines(t, w.stage.told(n), tt.want...)
				if got := w.marks(); got != 0 {
					t.Errorf("%d marks are left in the store", got)
				}
			})
		})
	}
}

func TestEnvironmentIsTheContract(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("reload-proxy"))
		defer w.stop()
		w.settled("www 60 A 192.0.2.1")
		now := time.Now().UTC()
		w.settled("www 120 A 192.0.2.2", "www 120 A 192.0.2.3")
		c := w.stage.seen()[1]
		want := map[string]string{
			"DDNS_EVENT": "changed", "DDNS_HOOK": "reload-proxy", "DDNS_ZONE": "dyn.example.org.", "DDNS_FQDN": "www.dyn.example.org.",
			"DDNS_TYPE": "A", "DDNS_TTL": "120", "DDNS_OLD": "192.0.2.1", "DDNS_NEW": "192.0.2.2 192.0.2.3", "DDNS_ATTEMPT": "1",
			"DDNS_TIME": now.Format(time.RFC3339), "DDNS_SOURCE": "http", "DDNS_ACTOR": "laptop",
		}
		if got := envOf(c); !maps.Equal(got, want) {
			t.Errorf("environment:\n%v\nwant:\n%v", got, want)
		}
		if got, want := c.env["DDNS_SERIAL"], fmt.Sprint(uint32(w.db.Zone(dynOrigin).Version().Serial())); got != want {
			t.Errorf("DDNS_SERIAL=%s, the zone's is %s", got, want)
		}
		if len(c.env["DDNS_EVENT_ID"]) != 26 {
			t.Errorf("DDNS_EVENT_ID=%q is no ULID", c.env["DDNS_EVENT_ID"])
		}
		var e hooks.Event
		if err := json.Unmarshal([]byte(c.env["DDNS_EVENT_JSON"]), &e); err != nil {
			t.Fatal(err)
		}
		if got := e.Env(); !maps.Equal(got, c.env) {
			t.Errorf("the JSON says\n%v\nthe variables\n%v", got, c.env)
		}
		w.settled("www A")
		if c := w.stage.seen()[2]; c.env["DDNS_NEW"] != "" || c.env["DDNS_TTL"] != "120" {
			t.Errorf("removed: DDNS_NEW=%q DDNS_TTL=%s, want nothing and the TTL it had", c.env["DDNS_NEW"], c.env["DDNS_TTL"])
		}
	})
}

// TestNewerChangesTakeOver holds the first run of a name open, or lets it fail,
// while more changes come.
func TestNewerChangesTakeOver(t *testing.T) {
	all := []string{policy.Added, policy.Changed, policy.Removed}
	for _, tt := range []struct {
		name string
		on   []string
		code int32 // how the first run ends
		then []string
		want []string // after the first run
	}{
		{"nothing new", all, 0, nil, nil},
		{"several while one runs are told as one, from what it was told to the last", all, 0,
			[]string{"www 60 A 192.0.2.2", "www 60 A 192.0.2.3"}, []string{`changed www A: "192.0.2.1" -> "192.0.2.3"`}},
		{"back to what runs is nothing", all, 0, []string{"www 60 A 192.0.2.2", "www 60 A 192.0.2.1"}, nil},
		{"after a failure the oldest OLD is kept", all, 1, []string{"www 60 A 192.0.2.2"}, []string{`changed www A: "192.0.2.0" -> "192.0.2.2"`}},
		{"back to the oldest after a failure is told, the hook may have heard", all, 1,
			[]string{"www 60 A 192.0.2.0"}, []string{`changed www A: "192.0.2.1" -> "192.0.2.0"`}},
		{"removed after a failure", all, 1, []string{"www A"}, []string{`removed www A: "192.0.2.0" -> ""`}},
		{"removed and back is a change", all, 0, []string{"www A", "www 60 A 192.0.2.5"}, []string{`changed www A: "192.0.2.1" -> "192.0.2.5"`}},
		{"given up, then changed: a new event", all, 78, []string{"www 60 A 192.0.2.2"}, []string{`changed www A: "192.0.2.0" -> "192.0.2.2"`}},
		{"a failure that the zone has left behind, of no interest, is not tried again", []string{policy.Changed}, 1, []string{"www A"}, nil},
		{"each type on its own, in the order of the last changes", all, 0,
			[]string{"www 60 AAAA 2001:db8::1", "www 60 A 192.0.2.2", "www 60 AAAA 2001:db8::2", "www 60 TXT x", "www 60 A 192.0.2.3"},
			[]string{`added www AAAA: "" -> "2001:db8::2"`, `added www TXT: "" -> "\"x\""`, `changed www A: "192.0.2.1" -> "192.0.2.3"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				h := hookFor("h")
				w := newWorld(t, h)
				defer w.stop()
				w.settled("www 60 A 192.0.2.0")
				h2 := *h
				h2.On = tt.on
				if err := w.d.Configure(t.Context(), []*policy.Hook{&h2}, w.stage); err != nil {
					t.Fatal(err)
				}
				gate := make(chan struct{})
				w.stage.act(func(ctx context.Context, c call) (*executed, error) {
					<-gate
					return exits(tt.code)(ctx, c)
				})
				w.settled("www 60 A 192.0.2.1")
				w.stage.act(nil)
				n := len(w.stage.seen())
				for _, change := range tt.then {
					w.settled(change)
				}
				if got := len(w.stage.seen()); got != n {
					t.Errorf("%d runs start while one of the same name runs", got-n)
				}
				close(gate)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				wantLines(t, w.stage.told(n), tt.want...)
				if got := w.marks(); got != 0 {
					t.Errorf("%d marks are left", got)
				}
			})
		})
	}
}

func TestWaitingChangesThatCancelOutAreDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		w.settled("www 60 A 192.0.2.1")
		gate := make(chan struct{})
		w.stage.act(func(context.Context, call) (*executed, error) { <-gate; return &executed{}, nil })
		w.settled("www 60 TXT busy")
		n := len(w.stage.seen())
		w.settled("www 60 A 192.0.2.2")
		if got := w.marks(); got != 2 {
			t.Errorf("%d marks, want one that runs and one that waits", got)
		}
		w.settled("www 60 A 192.0.2.1")
		if got := w.marks(); got != 1 {
			t.Errorf("%d marks, want the one that runs", got)
		}
		close(gate)
		synctest.Wait()
		wantLines(t, w.stage.told(n))
	})
}

func TestFailuresAreTriedAgain(t *testing.T) {
	const most = 10
	for _, tt := range []struct {
		name string
		do   func(context.Context, call) (*executed, error)
		runs int // until it is given up
	}{
		{"exit status 1", exits(1), most},
		{"exit status 75, a temporary failure", exits(75), most},
		{"exit status 78, a mistake in the configuration", exits(78), 1},
		{"ended by a signal", func(context.Context, call) (*executed, error) {
			return &executed{ExitCode: -1, Signal: 9, Error: "ended by signal 9"}, nil
		}, most},
		{"timed out", func(context.Context, call) (*executed, error) {
			return &executed{ExitCode: -1, TimedOut: true, Error: "timed out after 30s"}, nil
		}, most},
		{"DEADLINE_EXCEEDED", refuses(codes.DeadlineExceeded), most},
		{"RESOURCE_EXHAUSTED", refuses(codes.ResourceExhausted), most},
		{"ABORTED", refuses(codes.Aborted), most},
		{"INTERNAL", refuses(codes.Internal), most},
		{"an error that is no status", func(context.Context, call) (*executed, error) { return nil, fmt.Errorf("odd") }, most},
		{"INVALID_ARGUMENT", refuses(codes.InvalidArgument), 1},
		{"PERMISSION_DENIED", refuses(codes.PermissionDenied), 1},
		{"NOT_FOUND", refuses(codes.NotFound), 1},
		{"FAILED_PRECONDITION", refuses(codes.FailedPrecondition), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, hookFor("h"))
				defer w.stop()
				w.stage.act(tt.do)
				w.settled("www 60 A 192.0.2.1")
				time.Sleep(time.Hour)
				synctest.Wait()
				calls := w.stage.seen()
				if len(calls) != tt.runs {
					t.Fatalf("%d runs, want %d", len(calls), tt.runs)
				}
				for i, c := range calls {
					if c.env["DDNS_EVENT_ID"] != calls[0].env["DDNS_EVENT_ID"] {
						t.Errorf("run %d has another id", i+1)
					}
					if got, want := c.env["DDNS_ATTEMPT"], fmt.Sprint(i+1); got != want {
						t.Errorf("run %d: DDNS_ATTEMPT=%s", i+1, got)
					}
					if i > 0 {
						if pause, most := c.time.Sub(calls[i-1].time), min(5*time.Minute, time.Second<<(i-1))+time.Millisecond; pause > most {
							t.Errorf("run %d comes after %v, at most %v", i+1, pause, most)
						}
					}
				}
				if st := w.stats(); st.Dead != 1 || st.Pending != 0 {
					t.Errorf("%+v, want one event given up", st)
				}
				if got := w.logged("id=" + calls[0].env["DDNS_EVENT_ID"]); got != tt.runs {
					t.Errorf("%d lines in the log, want one per run", got)
				}

				// Given up means kept: it can be tried again, with the same id.
				w.stage.act(nil)
				if n, err := w.d.Retry(t.Context(), "h", owner("www")); n != 1 || err != nil {
					t.Fatalf("Retry: %d, %v", n, err)
				}
				synctest.Wait()
				last := w.stage.seen()[tt.runs:]
				if len(last) != 1 || last[0].env["DDNS_EVENT_ID"] != calls[0].env["DDNS_EVENT_ID"] {
					t.Errorf("after Retry: %v", last)
				}
				if st := w.stats(); st.Dead+st.Pending+w.marks() != 0 {
					t.Errorf("after Retry: %+v and %d marks", st, w.marks())
				}
			})
		})
	}
}

func TestPausesHaveFullJitter(t *testing.T) {
	// The ceiling is reached, and so is nothing at all: with random numbers just
	// below each ceiling, ten attempts take the sum of the ceilings.
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		w.hooks = []*policy.Hook{hookFor("h")}
		high := uint64(0)
		w.opts.Rand = func() uint64 { return high }
		w.stage.act(exits(1))
		w.boot()
		defer w.stop()
		w.settled("zero 60 A 192.0.2.1")
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if n := len(w.stage.seen()); n != 10 {
			t.Errorf("%d runs without pauses, want 10", n)
		}
		// A number that is one less than a multiple of every ceiling gives the
		// longest pauses: 1 s, 2 s, … 256 s.
		high = uint64(512*time.Second) - 1
		begin := time.Now()
		w.settled("long 60 A 192.0.2.1")
		time.Sleep(time.Hour)
		synctest.Wait()
		calls := w.stage.seen()
		if got, want := calls[len(calls)-1].time.Sub(begin).Round(time.Second), 511*time.Second; got != want {
			t.Errorf("ten attempts take %v, want %v", got, want)
		}
	})
}

func TestAwayExecutorCostsNoAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"), hookFor("k"))
		defer w.stop()
		w.stage.act(refuses(codes.Unavailable))
		for i := range 20 {
			w.put(fmt.Sprintf("n%d 60 A 192.0.2.%d", i, i))
		}
		time.Sleep(6 * time.Hour)
		synctest.Wait()
		// For each hook up to four at once find out, and on average every 15 s.
		if n := len(w.stage.seen()); n > 2*4*6*3600/10 || n < 6*3600/30 {
			t.Errorf("%d calls in six hours to an executor that is away", n)
		}
		if st := w.stats(); st.Dead != 0 || st.Pending != 20 {
			t.Errorf("%+v, want all of it pending", st)
		}
		w.stage.act(nil)
		n := len(w.stage.seen())
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if got := len(w.stage.seen()) - n; got != 40 {
			t.Errorf("%d runs within 30 s of its return, want 40", got)
		}
	})
}

func TestAwayExecutorOfOneHookHoldsNoOtherUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("away"), hookFor("near"))
		defer w.stop()
		w.stage.act(func(ctx context.Context, c call) (*executed, error) {
			if c.hook == "away" {
				return refuses(codes.Unavailable)(ctx, c)
			}
			return &executed{}, nil
		})
		var lines []string
		for i := range 100 {
			lines = append(lines, fmt.Sprintf("n%d 60 A 192.0.2.%d", i, i))
		}
		w.settled(lines...)
		for _, st := range w.d.Stats() {
			if want := map[string]int{"away": 100, "near": 0}[st.Hook]; st.Pending != want {
				t.Errorf("%s: %d pending, want %d", st.Hook, st.Pending, want)
			}
		}
	})
}

func TestAwayIsFoundOutOnceByRunsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.stop()
		w.hooks = []*policy.Hook{hookFor("h")}
		w.opts.Rand = func() uint64 { return uint64(512*time.Second) - 1 } // the longest pauses
		w.stage.act(refuses(codes.Unavailable))
		w.boot()
		defer w.stop()
		begin := time.Now()
		w.settled("a 60 A 192.0.2.1", "b 60 A 192.0.2.1", "c 60 A 192.0.2.1", "d 60 A 192.0.2.1")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		at := make(map[time.Duration]int)
		for _, c := range w.stage.seen() {
			at[c.time.Sub(begin).Round(time.Second)]++
		}
		if want := map[time.Duration]int{0: 4, time.Second: 4, 3 * time.Second: 4, 7 * time.Second: 4}; !maps.Equal(at, want) {
			t.Errorf("calls at %v, want %v", at, want)
		}
		w.stage.act(nil)
	})
}

func TestParallelRunsAreBoundedAndShared(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("hangs"), hookFor("works"), hookFor("too"))
		defer w.stop()
		release := make(chan struct{})
		w.stage.act(func(ctx context.Context, c call) (*executed, error) {
			if c.hook == "hangs" {
				<-release
			}
			return &executed{}, nil
		})
		var lines []string
		for i := range 50 {
			lines = append(lines, fmt.Sprintf("n%d 60 A 192.0.2.%d", i, i))
		}
		w.settled(lines...)
		by := make(map[string]int)
		for _, c := range w.stage.seen() {
			by[c.hook]++
		}
		if want := map[string]int{"hangs": 4, "works": 50, "too": 50}; !maps.Equal(by, want) {
			t.Errorf("runs %v, want %v", by, want)
		}
		if most := hooks.DefaultParallel + 2; w.stage.most > most {
			t.Errorf("%d runs at once, at most %d", w.stage.most, most)
		}
		// What hangs does not keep later changes from being marked and run.
		w.settled("later 60 A 192.0.2.1")
		for _, st := range w.d.Stats() {
			if want := map[string]int{"hangs": 51, "works": 0, "too": 0}[st.Hook]; st.Pending != want {
				t.Errorf("%s: %d pending, want %d", st.Hook, st.Pending, want)
			}
		}
		if w.marks() != 51 {
			t.Errorf("%d marks in the store, want 51", w.marks())
		}
		close(release)
		synctest.Wait()
		if st := w.stats(); st.Pending != 0 {
			t.Errorf("%+v after the release", st)
		}
	})
}

func TestDefinitionsChooseEvents(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hookFor("h")
		h.AnyType, h.Types = false, []uint16{1}
		h.On = []string{policy.Added, policy.Removed}
		h.Match = []policy.NamePattern{{Name: dynOrigin, Below: true}}
		w := newWorld(t, h)
		defer w.stop()
		w.settled("www 60 AAAA 2001:db8::1")
		w.settled("www 60 A 192.0.2.1")
		w.settled("www 60 A 192.0.2.2")
		w.settled("www A")
		wantLines(t, w.stage.told(0), `added www A: "" -> "192.0.2.1"`, `removed www A: "192.0.2.2" -> ""`)
	})
}

func TestUnwantedChangesCostNoTransaction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hookFor("h")
		h.Match = []policy.NamePattern{{Name: owner("wanted")}}
		w := newWorld(t, h)
		before := w.faulty.Calls(storetest.Advance)
		for i := range 200 {
			w.settled(fmt.Sprintf("other 60 A 192.0.2.%d", i))
		}
		if got := w.faulty.Calls(storetest.Advance) - before; got != 0 {
			t.Errorf("%d transactions for changes that no hook wants", got)
		}
		for i := range 400 {
			w.settled(fmt.Sprintf("other 60 A 198.51.100.%d", i%250))
		}
		if got := w.faulty.Calls(storetest.Advance) - before; got != 1 {
			t.Errorf("%d transactions after 600, want one: the cursor must not hold the journal back", got)
		}
		w.kill()
		w.boot()
		defer w.stop()
		w.settled("wanted 60 A 192.0.2.1")
		wantLines(t, w.stage.told(0), `added wanted A: "" -> "192.0.2.1"`)
	})
}

func TestStartsFromNow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.settled("old 60 A 192.0.2.1")
		w.kill() // with the cursor behind that change
		w.hooks = []*policy.Hook{hookFor("h")}
		w.boot()
		synctest.Wait()
		wantLines(t, w.stage.told(0))
		w.settled("new 60 A 192.0.2.1")
		wantLines(t, w.stage.told(0), `added new A: "" -> "192.0.2.1"`)

		// A hook that a reload brings.
		n := len(w.stage.seen())
		if err := w.d.Configure(t.Context(), []*policy.Hook{hookFor("h"), hookFor("k")}, w.stage); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantLines(t, w.stage.told(n))

		// A zone that a reload brings, with its first records.
		w.attach(zone.MustName("other.example.org"), dynZone)
		if err := w.d.Configure(t.Context(), []*policy.Hook{hookFor("h")}, w.stage); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantLines(t, w.stage.told(n))
		cursors, err := w.disk.Cursors(hooks.Follower)
		if err != nil || len(cursors) != 2 {
			t.Errorf("cursors %v, %v; want one for each zone", cursors, err)
		}
		w.stop()
	})
}

func TestReloadLosesNothingOfHooksThatStay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("stays"), hookFor("goes"))
		w.stage.act(exits(75))
		w.settled("www 60 A 192.0.2.1")
		gate := make(chan struct{})
		w.stage.act(func(context.Context, call) (*executed, error) { <-gate; return &executed{}, nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := w.d.Configure(t.Context(), []*policy.Hook{hookFor("stays")}, w.stage); err != nil {
			t.Fatal(err)
		}
		if w.marks() != 1 {
			t.Errorf("%d marks, want that of the hook that stays: a run of the other goes on", w.marks())
		}
		w.settled("www 60 A 192.0.2.2")
		if w.logged("dropped") != 1 {
			t.Errorf("the log does not say what was dropped:\n%s", strings.Join(w.log, "\n"))
		}
		n := len(w.stage.seen())
		// The hook comes back while its old run still goes on: never two at a time,
		// and nothing of the time between.
		if err := w.d.Configure(t.Context(), []*policy.Hook{hookFor("stays"), hookFor("goes")}, w.stage); err != nil {
			t.Fatal(err)
		}
		w.settled("www 60 A 192.0.2.3")
		close(gate)
		synctest.Wait()
		got := make(map[string][]string)
		for _, c := range w.stage.seen()[n:] {
			got[c.hook] = append(got[c.hook], c.String())
		}
		wantLines(t, got["stays"], `changed www A: "192.0.2.1" -> "192.0.2.3"`)
		wantLines(t, got["goes"], `changed www A: "192.0.2.2" -> "192.0.2.3"`)
		if w.marks() != 0 {
			t.Errorf("%d marks are left", w.marks())
		}
		// A restart without the hook drops what waits for it.
		w.stage.act(exits(78))
		w.settled("www 60 A 192.0.2.4")
		w.kill()
		w.hooks = []*policy.Hook{hookFor("stays")}
		w.boot()
		synctest.Wait()
		if st := w.stats(); st.Dead != 1 || w.marks() != 1 {
			t.Errorf("%+v and %d marks, want the one of the hook that stays", st, w.marks())
		}
		w.stop()
	})
}

func TestStopRequeuesWhatDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		w.stage.act(hangs)
		w.settled("www 60 A 192.0.2.1")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begin := time.Now()
		if err := w.d.Stop(ctx); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("Stop took %v, the grace is 5s", took)
		}
		w.db.Close()
		if err := w.d.Configure(t.Context(), nil, nil); err != hooks.ErrDispatcherStopped {
			t.Errorf("Configure after Stop: %v", err)
		}
		w.stage.act(nil)
		w.boot()
		synctest.Wait()
		calls := w.stage.seen()
		if len(calls) != 2 || !maps.Equal(calls[0].env, calls[1].env) {
			t.Errorf("calls %v, want the same one twice, a run that was ended does not count", calls)
		}
		w.stop()
	})
}

func TestStopWaitsForWhatEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		w.stage.act(func(context.Context, call) (*executed, error) { time.Sleep(3 * time.Second); return &executed{}, nil })
		w.settled("www 60 A 192.0.2.1", "www 60 AAAA 2001:db8::1")
		w.stop()
		if n := len(w.stage.seen()); n != 1 {
			t.Errorf("%d runs, none may start while stopping", n)
		}
		if w.marks() != 1 {
			t.Errorf("%d marks, want the one that did not start", w.marks())
		}
	})
}

func TestStopDoesNotWaitForeverForAnExecutor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		stuck := make(chan struct{})
		w.stage.act(func(context.Context, call) (*executed, error) { <-stuck; return &executed{}, nil })
		w.settled("www 60 A 192.0.2.1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := w.d.Stop(ctx)
		if err == nil || !strings.Contains(err.Error(), "1 runs do not end") {
			t.Errorf("Stop: %v", err)
		}
		close(stuck)
		w.db.Close()
	})
}

func TestTrimmedJournalIsSaidAndGoneOnFrom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		w.faulty.Inject(storetest.Journal, storetest.Fault{Err: store.ErrTrimmed, Times: 1})
		w.settled("lost 60 A 192.0.2.1")
		w.settled("www 60 A 192.0.2.1")
		wantLines(t, w.stage.told(0), `added www A: "" -> "192.0.2.1"`)
		if w.logged("lost to them") != 1 {
			t.Errorf("the log does not say so:\n%s", strings.Join(w.log, "\n"))
		}
	})
}

func TestIdleDispatcherIsIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		w.stage.act(exits(78))
		w.settled("dead 60 A 192.0.2.1")
		w.stage.act(hangs)
		w.settled("hangs 60 A 192.0.2.1")
		before := w.faulty.Calls(storetest.Advance) + w.faulty.Calls(storetest.Journal)
		runs := len(w.stage.seen())
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.faulty.Calls(storetest.Advance) + w.faulty.Calls(storetest.Journal) - before; got != 0 {
			t.Errorf("%d calls of the store in an idle minute", got)
		}
		if got := len(w.stage.seen()); got != runs {
			t.Errorf("%d runs in an idle minute", got-runs)
		}
		w.stage.act(nil)
	})
}

func TestEventIDsAreUnique(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"), hookFor("k"))
		defer w.stop()
		for i := range 20 {
			w.settled(fmt.Sprintf("www 60 A 192.0.2.%d", i), fmt.Sprintf("www 60 AAAA 2001:db8::%d", i))
		}
		ids := make(map[string]bool)
		for _, c := range w.stage.seen() {
			ids[c.env["DDNS_EVENT_ID"]] = true
		}
		if len(ids) != 80 || len(w.stage.seen()) != 80 {
			t.Errorf("%d ids in %d calls, want 80", len(ids), len(w.stage.seen()))
		}
		if !slices.IsSortedFunc(w.stage.seen(), func(a, b call) int { return a.time.Compare(b.time) }) {
			t.Error("calls are out of order")
		}
	})
}

package hooks_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// laws checks what hooks may rely on, across all processes that ran, once all is
// told: the last state of each name was told last, each name's changes came in
// order, and one id is one event.
func (w *world) laws() {
	w.t.Helper()
	type key struct{ hook, fqdn, typ string }
	serials := make(map[[2]string]uint64)
	events := make(map[string]call)
	last := make(map[key]call)
	for _, c := range w.stage.seen() {
		serial, err := strconv.ParseUint(c.env["DDNS_SERIAL"], 10, 32)
		if err != nil {
			w.t.Fatal(err)
		}
		lane := [2]string{c.hook, c.env["DDNS_FQDN"]}
		if serial < serials[lane] {
			w.t.Errorf("%s %s: %s (serial %d) is told after serial %d", c.hook, c.env["DDNS_EVENT_ID"], c, serial, serials[lane])
		}
		serials[lane] = serial
		if first, again := events[c.env["DDNS_EVENT_ID"]]; again {
			a, b := maps.Clone(first.env), maps.Clone(c.env)
			for _, k := range []string{"DDNS_ATTEMPT", "DDNS_EVENT_JSON"} {
				delete(a, k)
				delete(b, k)
			}
			if !maps.Equal(a, b) {
				w.t.Errorf("id %s is %s, and later %s", c.env["DDNS_EVENT_ID"], first, c)
			}
		}
		events[c.env["DDNS_EVENT_ID"]] = c
		last[key{c.hook, c.env["DDNS_FQDN"], c.env["DDNS_TYPE"]}] = c
	}
	v := w.db.Zone(dynOrigin).Version()
	for _, h := range w.hooks {
		for o, node := range v.All() {
			for set := range node.RRsets(o) {
				k := key{h.Name, o.String(), zone.TypeString(set.Type)}
				if _, told := last[k]; !told && !set.Static {
					w.t.Errorf("%v was never told", k)
				}
			}
		}
	}
	for k, c := range last {
		typ, _ := zone.ParseType(k.typ)
		set, _ := v.RRset(zone.MustName(k.fqdn), typ)
		var now []string
		for _, rr := range set.RRs() {
			now = append(now, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		if got := c.env["DDNS_NEW"]; got != strings.Join(now, " ") {
			w.t.Errorf("%v was last told %q, it is %q", k, got, now)
		}
	}
	if st := w.stats(); st.Pending+st.Dead+w.marks() != 0 {
		w.t.Errorf("%+v and %d marks are left", st, w.marks())
	}
}

// moody fails now and then, in every way, and is good in the end.
func moody(random func(int) int) func(context.Context, call) (*executed, error) {
	return func(ctx context.Context, c call) (*executed, error) {
		switch random(8) {
		case 0:
			return exits(75)(ctx, c)
		case 1:
			return nil, status.Error(codes.Unavailable, "away")
		case 2:
			select {
			case <-ctx.Done():
				return nil, status.FromContextError(ctx.Err()).Err()
			case <-time.After(time.Duration(random(3000)) * time.Millisecond):
			}
		}
		return &executed{}, nil
	}
}

// TestCrashAtEveryTransaction ends the process at each transaction of a run of
// changes in turn: before it is on the disk, and after.
func TestCrashAtEveryTransaction(t *testing.T) {
	changes := [][]string{
		{"a 60 A 192.0.2.1"}, {"a 60 A 192.0.2.2", "a 60 AAAA 2001:db8::2"}, {"b 60 A 192.0.2.1"},
		{"a A"}, {"a 60 A 192.0.2.1"}, {"b 60 A 192.0.2.2"}, {"b 60 A 192.0.2.1"}, {"b A"}, {"c 60 TXT x"},
	}
	for _, persisted := range []bool{false, true} {
		for at, more := 0, true; more; at++ {
			t.Run(fmt.Sprintf("transaction %d, on disk %v", at, persisted), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					w := newWorld(t, hookFor("h"))
					// Runs for two owners may be under way at once, so that what is run decides,
					// not when: a third fails, the same each time.
					w.stage.act(func(ctx context.Context, c call) (*executed, error) {
						what := fmt.Sprint(at, c, c.env["DDNS_SERIAL"], c.env["DDNS_ATTEMPT"])
						if crc32.ChecksumIEEE([]byte(what))%3 == 0 {
							return exits(75)(ctx, c)
						}
						return &executed{}, nil
					})
					before := w.faulty.Calls(storetest.Advance)
					w.faulty.Inject(storetest.Advance, storetest.Fault{Skip: at, Times: 1, Persisted: persisted})
					crashed := false
					for _, change := range changes {
						w.settled(change...)
						if !crashed && w.faulty.Calls(storetest.Advance)-before > at {
							crashed = true
							w.kill()
							w.boot()
						}
						time.Sleep(300 * time.Millisecond)
					}
					more = crashed
					time.Sleep(time.Hour)
					w.stage.act(nil)
					if _, err := w.d.Retry(t.Context(), "h", ""); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					w.laws()
					w.stop()
				})
			})
			if at > 100 {
				t.Fatal("no end of transactions")
			}
		}
	}
}

// TestCrashAtRandomMoments has two hooks, a few names, a moody executor, and a
// process that dies, or whose store fails, when it likes.
func TestCrashAtRandomMoments(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				source := rand.New(rand.NewPCG(7, seed))
				lock := make(chan struct{}, 1)
				random := func(n int) int {
					lock <- struct{}{}
					defer func() { <-lock }()
					return source.IntN(n)
				}
				w := newWorld(t, hookFor("h"), hookFor("k"))
				w.stage.act(moody(random))
				for range 150 {
					name, value := string(rune('a'+random(3))), random(3)
					switch random(8) {
					case 0:
						w.put(name + " A")
					case 1, 2:
						w.put(fmt.Sprintf("%s 60 AAAA 2001:db8::%d", name, value))
					case 3:
						w.kill()
						w.boot()
					case 4:
						w.faulty.Inject(storetest.Advance, storetest.Fault{Skip: random(3), Times: 1 + random(3), Persisted: random(2) == 0})
					case 5:
						w.faulty.Inject(storetest.Journal, storetest.Fault{Times: 1, After: random(2)})
					default:
						w.put(fmt.Sprintf("%s 60 A 192.0.2.%d", name, value))
					}
					time.Sleep(time.Duration(random(400)*random(10)) * time.Millisecond)
				}
				w.faulty.Heal()
				w.stage.act(nil)
				time.Sleep(time.Hour)
				for _, h := range w.hooks {
					if _, err := w.d.Retry(t.Context(), h.Name, ""); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				w.laws()
				w.stop()
			})
		})
	}
}

func TestGivenUpSurvivesARestart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		w.stage.act(exits(75))
		w.settled("www 60 A 192.0.2.1")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		tries := len(w.stage.seen())
		w.kill()
		w.boot()
		time.Sleep(time.Hour)
		synctest.Wait()
		calls := w.stage.seen()
		if len(calls) != 10 || tries == 0 || tries == 10 {
			t.Errorf("%d runs, %d of them before the restart: want 10 in all", len(calls), tries)
		}
		w.kill()
		w.boot()
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := w.stats(); len(w.stage.seen()) != 10 || st.Dead != 1 || st.Pending != 0 {
			t.Errorf("%d runs, %+v: want none after it was given up", len(w.stage.seen()), st)
		}
		l := w.d.List().Hooks[0]
		if len(l.Events) != 1 || l.Events[0].State != "dead" || l.Events[0].ID != calls[0].env["DDNS_EVENT_ID"] || l.Events[0].Error != "exit status 75" {
			t.Errorf("listing %+v", l)
		}
		w.stop()
	})
}

// Names that come and go leave what was given up of them behind, within a bound.
func TestGivenUpIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := &world{t: t, disk: newDisk(), stage: newStage(t), hooks: []*policy.Hook{hookFor("h")}}
		w.opts.GivenUp = 5
		w.stage.act(exits(78))
		w.boot()
		kept := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, e := range w.d.List().Hooks[0].Events {
				got = append(got, e.Event.Event+" "+strings.TrimSuffix(e.FQDN, ".dyn.example.org."))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || w.marks() != len(want) || w.stats().Dead != len(want) {
				t.Errorf("kept %q in memory and %d in the store, want %q", got, w.marks(), want)
			}
		}
		for i := range 9 {
			name := fmt.Sprintf("n%d", i)
			w.settled(name + " 60 A 192.0.2.1")
			w.settled(name + " A")
			time.Sleep(time.Second)
		}
		kept("removed n4", "removed n5", "removed n6", "removed n7", "removed n8")
		if n := w.logged("the oldest is dropped: hook=h"); n != 4 {
			t.Errorf("%d warnings, want 4:\n%s", n, strings.Join(w.log, "\n"))
		}
		// What was told in the end makes room again.
		w.stage.act(nil)
		if n, err := w.d.Retry(t.Context(), "h", zone.MustName("n6.dyn.example.org")); err != nil || n != 1 {
			t.Errorf("Retry: %d, %v", n, err)
		}
		synctest.Wait()
		w.stage.act(exits(78))
		w.settled("n9 60 A 192.0.2.1")
		kept("added n9", "removed n4", "removed n5", "removed n7", "removed n8")
		// A lower bound counts at the next start.
		w.kill()
		w.opts.GivenUp = 2
		w.boot()
		kept("added n9", "removed n8")
		w.stop()
	})
}

// TestNothingStartsThatTheStoreDoesNotKnow fails the store while changes come.
func TestNothingStartsThatTheStoreDoesNotKnow(t *testing.T) {
	for _, persisted := range []bool{false, true} {
		t.Run(fmt.Sprintf("written %v", persisted), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, hookFor("h"))
				defer w.stop()
				w.faulty.Inject(storetest.Advance, storetest.Fault{Times: -1, Persisted: persisted})
				before := w.faulty.Calls(storetest.Advance)
				w.settled("www 60 A 192.0.2.1")
				w.settled("www 60 A 192.0.2.2")
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := w.faulty.Calls(storetest.Advance) - before; n < 3 || n > 30 {
					t.Errorf("%d attempts to store in a minute", n)
				}
				wantLines(t, w.stage.told(0))
				if w.logged("error: Hooks wait for the store") != 1 {
					t.Errorf("the log should say so once:\n%s", strings.Join(w.log, "\n"))
				}
				w.faulty.Heal()
				time.Sleep(10 * time.Second)
				synctest.Wait()
				// The first mark was in memory when the second change came: told as one or
				// as two, the last is the last.
				told := w.stage.told(0)
				if len(told) == 0 || !strings.HasSuffix(told[len(told)-1], `-> "192.0.2.2"`) {
					t.Errorf("told %v", told)
				}
				if w.marks() != 0 {
					t.Errorf("%d marks are left", w.marks())
				}
			})
		})
	}
}

// TestRunsCutShortMayHaveBeenHeard kills the process while a run is under way: what
// follows is told as to a hook that may have heard of it.
func TestRunsCutShortMayHaveBeenHeard(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after string // the second change, before or after the process dies
		want          string
	}{
		{"a change waits behind the run", "www 60 A 192.0.2.3", "", `changed www A: "192.0.2.1" -> "192.0.2.3"`},
		{"a change back waits behind the run", "www 60 A 192.0.2.1", "", `changed www A: "192.0.2.2" -> "192.0.2.1"`},
		{"a change while the dispatcher is down", "", "www 60 A 192.0.2.3", `changed www A: "192.0.2.1" -> "192.0.2.3"`},
		{"a change back while the dispatcher is down", "", "www 60 A 192.0.2.1", `changed www A: "192.0.2.2" -> "192.0.2.1"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := newWorld(t, hookFor("h"))
				w.settled("www 60 A 192.0.2.1")
				w.stage.act(hangs)
				w.settled("www 60 A 192.0.2.2")
				if tt.before != "" {
					w.settled(tt.before)
				}
				n := len(w.stage.seen())
				w.kill()
				w.stage.act(nil)
				w.bootStore()
				if tt.after != "" {
					w.settled(tt.after)
				}
				if err := w.d.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				told := w.stage.told(n)
				wantLines(t, told[max(0, len(told)-1):], tt.want)
				w.laws()
				w.stop()
			})
		})
	}
}

func TestChangesDuringAStoreFailureAreMarkedWithoutBeingAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		w.stage.act(func(ctx context.Context, c call) (*executed, error) {
			time.Sleep(time.Hour) // nothing ends that would have the dispatcher look again
			return &executed{}, nil
		})
		w.settled("a 60 A 192.0.2.1", "b 60 A 192.0.2.1", "c 60 A 192.0.2.1", "d 60 A 192.0.2.1")
		w.faulty.Inject(storetest.Advance, storetest.Fault{Times: 2})
		w.settled("e 60 A 192.0.2.1")
		w.settled("f 60 A 192.0.2.1")
		time.Sleep(time.Minute)
		synctest.Wait()
		if w.marks() != 6 {
			t.Errorf("%d marks, want 6", w.marks())
		}
		time.Sleep(3 * time.Hour)
		w.stop()
	})
}

func TestStartFailsWithASentence(t *testing.T) {
	for _, tt := range []struct {
		step storetest.Step
		want string
	}{
		{storetest.Cursors, "reading where hooks are: "},
		{storetest.Items, "reading what hooks have still to be told: "},
		{storetest.Advance, "storing what hooks have still to be told: "},
	} {
		t.Run(string(tt.step), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				w := &world{t: t, disk: newDisk(), stage: newStage(t), hooks: []*policy.Hook{hookFor("h")}}
				w.bootStore()
				w.faulty.Inject(tt.step, storetest.Fault{Times: 1})
				if err := w.d.Start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("Start: %v, want %q", err, tt.want)
				}
				if err := w.d.Stop(t.Context()); err != nil {
					t.Errorf("Stop of what did not start: %v", err)
				}
				w.db.Close()
			})
		})
	}
}

func TestHangingHookDelaysNoUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		w.stage.act(hangs)
		begin := time.Now()
		for i := range 500 {
			w.put(fmt.Sprintf("n%d 60 A 192.0.2.1", i))
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("updates waited %v for hooks", took)
		}
		synctest.Wait()
		if w.marks() != 500 {
			t.Errorf("%d marks, want 500", w.marks())
		}
		// Each run ends at its limit; what it holds up then goes on.
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(w.stage.seen()); n <= hooks.DefaultParallel {
			t.Errorf("%d runs after the limit of the first", n)
		}
		w.stage.act(nil)
		if n, err := w.d.Discard(t.Context(), "h", ""); err != nil || n == 0 {
			t.Errorf("Discard: %d, %v", n, err)
		}
	})
}

func TestUnreadableItemsAreLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		w.stage.act(exits(78))
		w.settled("www 60 A 192.0.2.1")
		w.kill()
		if err := w.disk.Advance(t.Context(), advance("mark\x00of a later version", `{"v":2}`)); err != nil {
			t.Fatal(err)
		}
		w.boot()
		if w.logged("cannot be read and is left alone") != 1 || w.marks() != 2 || w.stats().Dead != 1 {
			t.Errorf("%d marks, %+v, log:\n%s", w.marks(), w.stats(), strings.Join(w.log, "\n"))
		}
		w.stop()
	})
}

// TestManyNames marks 100,000 names, twice over, while nothing can run.
func TestManyNames(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	const names = 100_000
	w := newWorld(t, hookFor("h"))
	w.stage.act(hangs)
	sizes := []uint64{}
	base := heap()
	for round := range 2 {
		lines := make([]string, names)
		for i := range lines {
			lines[i] = fmt.Sprintf("n%d 60 A 198.51.%d.%d", i, i/250%250, (i+round)%250)
		}
		w.put(lines...)
		lines = nil
		begin := time.Now()
		for !w.marksAt(round) {
			if time.Sleep(5 * time.Millisecond); time.Since(begin) > time.Minute {
				t.Fatal("the names are not marked within a minute")
			}
		}
		t.Logf("%d names marked in %v", names, time.Since(begin).Round(time.Millisecond))
		if n := w.stats().Pending; n < names || n > names+hooks.DefaultParallel {
			t.Errorf("%d pending, want one for each of %d names, and what runs", n, names)
		}
		sizes = append(sizes, heap()-base)
	}
	t.Logf("heap above the empty process, zone, journal and store in memory included, after each round: %d MB", mega(sizes))
	if slices.Max(sizes[1:]) > sizes[0]*3 {
		t.Errorf("memory grows with changes, not with names: %d MB", mega(sizes))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.d.Stop(ctx); err != nil {
		t.Error(err)
	}
	w.db.Close()
}

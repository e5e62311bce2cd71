package hooks_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

var dynOrigin = zone.MustName("dyn.example.org")

const dynZone = `
@     3600 SOA ns1 hostmaster 1 3600 600 86400 60
@     3600 NS  ns1
ns1   3600 A   192.0.2.53
`

// survivor is a store that outlives the process: Close does nothing.
type survivor struct{ store.Store }

func (survivor) Close() error { return nil }

// call is one run of a hook, as the executor sees it.
type call struct {
	hook string
	env  map[string]string
	time time.Time
}

func (c call) name() string { return strings.TrimSuffix(c.env["DDNS_FQDN"], ".dyn.example.org.") }

// String is a call in one line: what it tells of whom.
func (c call) String() string {
	return fmt.Sprintf("%s %s %s: %q -> %q", c.env["DDNS_EVENT"], c.name(), c.env["DDNS_TYPE"], c.env["DDNS_OLD"], c.env["DDNS_NEW"])
}

// stage is an Executor that enforces what a hook may rely on, and does as it is
// told.
type stage struct {
	t  testing.TB
	do func(context.Context, call) (*executed, error) // nil: succeed at once

	mu      sync.Mutex
	calls   []call
	running map[string]int // by hook and name, and "" for all
	most    int            // runs at once
}

func newStage(t testing.TB) *stage { return &stage{t: t, running: make(map[string]int)} }

func (s *stage) Execute(ctx context.Context, h *hookRequest) (*executed, error) {
	c := call{h.Name, h.Env, time.Now()}
	if _, ok := ctx.Deadline(); !ok {
		s.t.Error("a run without a deadline")
	}
	if len(h.Command) > 0 || h.User != "" || h.Group != "" || h.Cwd != "" {
		s.t.Errorf("more of the definition is sent than its name: %v", h)
	}
	key := c.hook + " " + c.env["DDNS_FQDN"]
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.running[key]++
	s.running[""]++
	if s.running[key] > 1 {
		s.t.Errorf("%s runs twice at a time", key)
	}
	s.most = max(s.most, s.running[""])
	do := s.do
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[key]--
		s.running[""]--
	}()
	if do == nil {
		return &executed{}, nil
	}
	return do(ctx, c)
}

func (s *stage) act(do func(context.Context, call) (*executed, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.do = do
}

func (s *stage) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// told are the calls since the first n, one line each.
func (s *stage) told(n int) []string {
	var lines []string
	for _, c := range s.seen()[n:] {
		lines = append(lines, c.String())
	}
	return lines
}

func exits(code int32) func(context.Context, call) (*executed, error) {
	return func(context.Context, call) (*executed, error) {
		if code == 0 {
			return &executed{}, nil
		}
		return &executed{ExitCode: code, Error: fmt.Sprintf("exit status %d", code)}, nil
	}
}

func refuses(code codes.Code) func(context.Context, call) (*executed, error) {
	return func(context.Context, call) (*executed, error) { return nil, status.Error(code, "as told") }
}

// hangs runs until it is told to end.
func hangs(ctx context.Context, _ call) (*executed, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// world is a process with its database and dispatcher, on a store that survives it.
type world struct {
	t      testing.TB
	disk   *mem.Store
	faulty *storetest.Faulty
	db     *zonedb.DB
	d      *hooks.Dispatcher
	stage  *stage
	hooks  []*policy.Hook
	opts   hooks.DispatcherOptions

	mu  sync.Mutex
	log []string
}

// hookFor is a definition that wants all of everything.
func hookFor(name string) *policy.Hook {
	return &policy.Hook{Name: name, Command: []string{"/bin/true"}, On: []string{policy.Added, policy.Changed, policy.Removed}, AnyType: true, Timeout: 30 * time.Second}
}

func newWorld(t testing.TB, defs ...*policy.Hook) *world {
	w := &world{t: t, disk: mem.New(), stage: newStage(t), hooks: defs}
	w.boot()
	return w
}

// boot starts a process.
func (w *world) boot() {
	w.t.Helper()
	w.bootStore()
	if err := w.d.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// bootStore does all of boot but start the dispatcher.
func (w *world) bootStore() {
	w.t.Helper()
	w.faulty = storetest.NewFaulty(survivor{w.disk})
	db, err := zonedb.Open(w.faulty, zonedb.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.db = db
	w.attach(dynOrigin, dynZone)
	o := w.opts
	o.Journal, o.Executor, o.Hooks = db, w.stage, w.hooks
	o.Log = func(level, message string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.log = append(w.log, level+": "+message)
	}
	w.d = hooks.NewDispatcher(o)
}

func (w *world) attach(origin zone.Name, text string) {
	w.t.Helper()
	sets, err := zone.ReadFile(strings.NewReader(text), "test.zone", origin)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.db.Attach(w.t.Context(), []zonedb.Spec{{Origin: origin, Static: sets, Source: "file"}}); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the process as SIGKILL does: nothing more reaches the disk, and what
// runs is not heard of again.
func (w *world) kill() {
	for _, step := range storetest.Writing {
		w.faulty.Inject(step, storetest.Fault{Times: -1})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = w.d.Stop(ctx) // it cannot store anything
	w.db.Close()
}

// stop ends it in order.
func (w *world) stop() {
	w.t.Helper()
	if err := w.d.Stop(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	w.db.Close()
}

func (w *world) logged(part string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, line := range w.log {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// put makes records of one line of a zone file, such as "www 60 A 192.0.2.1", an
// RRset's only ones, or removes the RRset when there is no rdata: "www A".
func (w *world) put(lines ...string) {
	w.t.Helper()
	u := zone.Update{Cause: zone.Cause{Source: "http", Actor: "laptop", Unix: time.Now().Unix()}}
	byKey := make(map[string][]dns.RR)
	var order []string
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) == 2 {
			typ, _ := zone.ParseType(fields[1])
			u.Operations = append(u.Operations, zone.Operation{Kind: zone.DeleteRRset, Owner: owner(fields[0]), Type: typ})
			continue
		}
		rr, err := dns.NewRR(fields[0] + ".dyn.example.org. " + strings.TrimSpace(line[len(fields[0]):]))
		if err != nil {
			w.t.Fatal(err)
		}
		key := fields[0] + " " + fields[2]
		if byKey[key] == nil {
			order = append(order, key)
		}
		byKey[key] = append(byKey[key], rr)
	}
	for _, key := range order {
		set, err := zone.NewRRset(byKey[key]...)
		if err != nil {
			w.t.Fatal(err)
		}
		u.Operations = append(u.Operations, zone.ReplaceRRset(set)...)
	}
	if _, err := w.db.Zone(dynOrigin).Update(w.t.Context(), u); err != nil {
		w.t.Fatal(err)
	}
}

func owner(name string) zone.Name { return zone.MustName(name + ".dyn.example.org") }

// settled is put, and then waits until nothing moves any more. In a bubble only.
func (w *world) settled(lines ...string) {
	w.t.Helper()
	if len(lines) > 0 {
		w.put(lines...)
	}
	synctest.Wait()
}

// stats are the numbers of the first hook.
func (w *world) stats() hooks.HookStats {
	w.t.Helper()
	all := w.d.Stats()
	if len(all) == 0 {
		w.t.Fatal("no hook is defined")
	}
	return all[0]
}

// items are the keys in the store, for hooks that are known and marks.
func (w *world) marks() int {
	n := 0
	for it, err := range w.disk.Items(hooks.Follower, "mark") {
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(it.Key, "mark\x00") {
			n++
		}
	}
	return n
}

func wantLines(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("told:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// bubble runs a test on a clock of its own; every goroutine must have ended when f
// returns.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// envOf leaves out what differs from run to run.
func envOf(c call) map[string]string {
	env := maps.Clone(c.env)
	for _, k := range []string{"DDNS_EVENT_JSON", "DDNS_EVENT_ID", "DDNS_SERIAL"} {
		delete(env, k)
	}
	return env
}

func newDisk() *mem.Store { return mem.New() }

func advance(key, value string) store.Advance {
	return store.Advance{Follower: hooks.Follower, Put: []store.Item{{Key: key, Value: []byte(value)}}}
}

// marksAt reports whether the newest marks are those of a round: the cursor is at
// the change that a round is.
func (w *world) marksAt(round int) bool {
	cursors, err := w.disk.Cursors(hooks.Follower)
	if err != nil {
		w.t.Fatal(err)
	}
	return cursors[dynOrigin] == store.Position(round+2)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func mega(sizes []uint64) []uint64 {
	var out []uint64
	for _, s := range sizes {
		out = append(out, s>>20)
	}
	return out
}

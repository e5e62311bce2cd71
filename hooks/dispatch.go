package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Follower is the name under which the Dispatcher keeps its cursors and marks.
const Follower = "hooks"

// DefaultGivenUp is how many events of one hook that were given up are kept. Names that
// are gone leave theirs behind, and whoever may make names can make as many.
const DefaultGivenUp = 10_000

// DefaultParallel is how many events of one hook a Dispatcher runs at once.
const DefaultParallel = 4

// ErrDispatcherStopped is returned by the methods of a Dispatcher that does not run.
var ErrDispatcherStopped = errors.New("the hook dispatcher is stopped")

// A Journal is what the Dispatcher follows: the zones of one database.
type Journal interface {
	// Zones lists the zones that are loaded.
	Zones() []zone.Name
	// Snapshot is a zone as it is published, with the position of its newest
	// changeset; nil when it is not loaded.
	Snapshot(origin zone.Name) (v *zone.Version, last store.Position)
	// Journal, Cursors, Items and Advance are those of store.Store.
	Journal(ctx context.Context, origin zone.Name, after, upto store.Position) iter.Seq2[store.Entry, error]
	Cursors(follower string) (map[zone.Name]store.Position, error)
	Items(follower, from string) iter.Seq2[store.Item, error]
	Advance(ctx context.Context, a store.Advance) error
	// Subscribe returns a channel that gets a token when something was published
	// since the last token was taken.
	Subscribe() (changed <-chan struct{}, cancel func())
}

// A DispatchObserver counts. Its methods must be quick.
type DispatchObserver interface {
	// Attempt is called when a hook was tried for an event. Result is ok, retry,
	// dead (it will not be tried again), away (no executor could be reached),
	// superseded (it failed, and a newer change is told instead) or canceled.
	Attempt(hook, result string, took time.Duration)
}

// DispatcherOptions are what a Dispatcher needs from outside.
type DispatcherOptions struct {
	Journal  Journal
	Executor Executor
	Hooks    []*policy.Hook
	// Parallel bounds the hooks that run at once. 0 is DefaultParallel and one more for
	// each definition beside the first.
	Parallel int
	// GivenUp bounds the events kept of one hook that were given up; 0 is
	// DefaultGivenUp. Beyond it the oldest is dropped, with a warning.
	GivenUp int

	Now      func() time.Time // time.Now
	Rand     func() uint64    // for jitter and event ids; math/rand/v2.Uint64
	Observer DispatchObserver // may be nil
	// Log is told one line per attempt and what an operator should look at; level is
	// "info", "warning" or "error".
	Log func(level, message string)
}

// A Dispatcher tells hooks what changed in the zones of a database, at least once,
// whatever happens to either side.
//
// It follows the journal. For each change that a definition wants it marks (hook,
// owner, type) and moves its cursor, in one transaction of the store; then runs
// what is marked, and takes the mark off when the hook succeeded. For one hook and
// owner it runs one event at a time, oldest change first; a change that comes
// while another of the same type waits, or waits to be tried again, takes
// its place. So what waits is bounded by the names that changed since they were last
// told, what was given up by GivenUp, and the last event a hook is told is the last
// state.
//
// Zones and hooks start from now: a Dispatcher tells nothing that was there before
// it first saw the zone or the definition. A change of TTL alone is an event with
// the same data before and after; a change of the SOA alone is none.
//
// Memory and store say the same whenever a hook is started: while the store cannot
// be written, no hook is.
type Dispatcher struct {
	opts DispatcherOptions // immutable after NewDispatcher
	kick chan struct{}     // one slot: look into the inbox
	done chan struct{}     // closed when the loop has returned

	changed     <-chan struct{}
	unsubscribe func()

	inbox struct {
		sync.Mutex
		ops     []*operation
		ended   []*run
		phase   phase
		stopped bool // no further ops are taken
	}

	runs     context.Context // of every Execute
	stopRuns context.CancelCauseFunc

	// What follows is changed by the loop alone, and while it holds mu; others read
	// it under mu.
	mu      sync.Mutex
	exec    Executor
	defs    map[string]*definition
	order   []*definition // as the policy has them
	running int
	byHand  int // further runs, of Test

	// What follows is the loop's own.
	turn    int                          // where in order the next look for work begins
	cursors map[zone.Name]store.Position // how far the journal was read
	stored  map[zone.Name]store.Position // of this, what the store knows
	dirty   map[markKey]bool             // marks that the store may not know
	notes   map[string][]byte            // other items to write; nil deletes
	later   dueHeap                      // subjects that wait for a time
	store   backoff                      // the store cannot be written
	reading backoff                      // the journal cannot be read
}

// backoff is how long to leave something alone that does not work.
type backoff struct {
	failures int
	until    time.Time
	err      error
}

// operation is a call from outside, done by the loop between two of its steps.
type operation struct {
	do   func(phase) error
	done chan error // one slot
}

// NewDispatcher returns a Dispatcher that does nothing before Start.
func NewDispatcher(o DispatcherOptions) *Dispatcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	if o.GivenUp == 0 {
		o.GivenUp = DefaultGivenUp
	}
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	d := &Dispatcher{
		opts: o, exec: o.Executor,
		kick: make(chan struct{}, 1), done: make(chan struct{}),
		defs:    make(map[string]*definition),
		cursors: make(map[zone.Name]store.Position), stored: make(map[zone.Name]store.Position),
		dirty: make(map[markKey]bool), notes: make(map[string][]byte),
	}
	d.runs, d.stopRuns = context.WithCancelCause(context.Background())
	return d
}

// Start reads what a predecessor left, gives every zone a cursor, and begins to
// run hooks. When it returns nil, no change that is committed afterwards is missed.
// ctx bounds Start only. A Dispatcher is started once.
func (d *Dispatcher) Start(ctx context.Context) error {
	left, err := d.load()
	if err != nil {
		return err
	}
	changed, unsubscribe := d.opts.Journal.Subscribe()
	d.adoptZones()
	d.define(d.opts.Hooks, d.opts.Executor, left.known)
	d.place(left.marks)
	if err := d.flush(ctx, true); err != nil {
		unsubscribe()
		return err
	}
	d.changed, d.unsubscribe = changed, unsubscribe
	go d.loop()
	return nil
}

// Configure replaces definitions and executor, as a reload does. Nothing of a hook
// that stays is lost, and runs go on. What waits for a hook that is gone is
// dropped, with a line in the log; a hook that is new is told of changes from now
// on. Zones that were loaded since get a cursor before Configure returns. On an
// error of the store the definitions are in force but, should the process
// end now, a change may be missed.
func (d *Dispatcher) Configure(ctx context.Context, hooks []*policy.Hook, exec Executor) error {
	return d.perform(ctx, func(phase) error {
		d.adoptZones()
		d.define(hooks, exec, nil)
		d.store.until = time.Time{} // the reply is worth an attempt
		return nil
	})
}

// perform has the loop call do, and returns when what it did is stored.
func (d *Dispatcher) perform(ctx context.Context, do func(phase) error) error {
	op := &operation{do: do, done: make(chan error, 1)}
	d.inbox.Lock()
	if d.inbox.stopped {
		d.inbox.Unlock()
		return ErrDispatcherStopped
	}
	d.inbox.ops = append(d.inbox.ops, op)
	d.inbox.Unlock()
	d.wake()
	select {
	case err := <-op.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop starts no further hook and waits for those that run. When ctx ends first,
// they are ended, and tried again by the next Dispatcher. What is known by then
// is stored. It returns an error when an executor does not let go, or the store
// does not take the last of it; both cost no more than a repeated run. The journal
// must work until Stop has returned.
func (d *Dispatcher) Stop(ctx context.Context) error {
	if d.unsubscribe == nil { // never started
		return nil
	}
	d.quit(stopping)
	select {
	case <-d.done:
	case <-ctx.Done():
		d.stopRuns(errStopping)
		t := time.NewTimer(releaseWait)
		defer t.Stop()
		select {
		case <-d.done:
		case <-t.C:
			d.quit(abandoning)
			<-d.done
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch n := d.running + d.byHand; {
	case n > 0:
		return fmt.Errorf("stopping hooks: %d runs do not end", n)
	case d.unsaved():
		return fmt.Errorf("stopping hooks: the store did not take the last results: %w", d.store.err)
	}
	return nil
}

// errStopping is why a run was ended that counts for nothing.
var errStopping = errors.New("the dispatcher stops")

// releaseWait is how long runs may take to end once they are told to: longer than
// a Runner needs from TERM to the last KILL.
const releaseWait = 20 * time.Second

// phase is how far the end has come.
type phase int

const (
	following  phase = iota
	stopping         // start nothing, wait for what runs
	abandoning       // wait for nothing
)

func (d *Dispatcher) quit(p phase) {
	d.inbox.Lock()
	d.inbox.phase = max(d.inbox.phase, p)
	d.inbox.Unlock()
	d.wake()
}

func (d *Dispatcher) wake() {
	select {
	case d.kick <- struct{}{}:
	default:
	}
}

// loop is the one goroutine that changes the Dispatcher's state.
func (d *Dispatcher) loop() {
	defer close(d.done)
	defer d.unsubscribe()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p := d.step()
		if p == abandoning || p == stopping && d.running+d.byHand == 0 {
			d.leave()
			return
		}
		timer.Stop()
		if at, ok := d.next(p); ok {
			// Never a busy loop, even should a time be past already.
			timer.Reset(max(at.Sub(d.opts.Now()), time.Millisecond))
		}
		select {
		case <-d.changed:
		case <-d.kick:
		case <-timer.C:
		}
	}
}

// step does all there is to do now: what ended, what changed, what was asked for;
// makes it durable; and then starts what may start.
func (d *Dispatcher) step() phase {
	d.inbox.Lock()
	ops, ended, p := d.inbox.ops, d.inbox.ended, d.inbox.phase
	d.inbox.ops, d.inbox.ended = nil, nil
	d.inbox.Unlock()

	for _, r := range ended {
		d.settle(r)
	}
	followed := d.follow()
	errs := make([]error, len(ops))
	for i, op := range ops {
		errs[i] = op.do(p)
	}
	err := d.flush(context.Background(), len(ops) > 0)
	if !followed && !d.unsaved() {
		d.wake() // the token of what was published meanwhile is spent
	}
	for i, op := range ops {
		op.done <- cmp.Or(errs[i], err)
	}
	if p == following {
		d.launch()
	}
	return p
}

// leave ends the loop: nobody is left waiting, and what is known is stored.
func (d *Dispatcher) leave() {
	d.inbox.Lock()
	d.inbox.stopped = true
	ops := d.inbox.ops
	d.inbox.ops = nil
	d.inbox.Unlock()
	for _, op := range ops {
		op.done <- ErrDispatcherStopped
	}
	d.store.until, d.reading.until = time.Time{}, time.Time{}
	d.follow()
	if err := d.flush(context.Background(), true); err != nil {
		d.opts.Log("error", err.Error())
	}
}

// next is when there is something to do without being told.
func (d *Dispatcher) next(p phase) (at time.Time, ok bool) {
	earlier := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if d.reading.failures > 0 {
		earlier(d.reading.until)
	}
	if d.store.failures > 0 {
		if _, worth := d.moved(); worth || d.unsaved() {
			earlier(d.store.until)
		}
	}
	if p != following || d.unsaved() || d.exec == nil {
		return at, ok
	}
	if len(d.later) > 0 {
		earlier(d.later[0].at)
	}
	for _, f := range d.order {
		if len(f.ready) > 0 && f.away.until.After(d.opts.Now()) {
			earlier(f.away.until)
		}
	}
	return at, ok
}

package zonedb

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// queueLength bounds the updates that wait for the writer. At a few thousand
// updates a second it is about a second of work; past it ErrBusy is the better
// answer.
const queueLength = 4096

// batchLength bounds the updates that share one transaction, and with it how
// long the last of them waits.
const batchLength = 512

// DB is an open store with its zones in memory and the single writer for all of
// them. Reading a zone never waits for it.
type DB struct {
	store store.Store
	opts  Options

	zones   atomic.Pointer[map[zone.Name]*Zone] // replaced whole, under mu
	queue   chan *request
	stopped atomic.Bool
	state   atomic.Int32  // State
	done    chan struct{} // closed when the writer has returned

	// owned by the writer
	crowd      int           // updates that lately shared a transaction
	commitTook time.Duration // the last one

	// closing is held for reading while a request is being queued, so that
	// Close knows that none follows.
	closing sync.RWMutex

	mu          sync.Mutex // serialises Attach and Detach
	followers   followers
	subscribers subscribers
}

// Options are what a DB needs from outside. All fields may be zero.
type Options struct {
	Now      func() time.Time // time.Now
	Observer Observer
	// Log is told about the store: level is "info", "warning" or "error".
	Log func(level, message string)
}

// DefaultJournal is how many changesets of a zone are kept at most.
const DefaultJournal = 20000

// Observer is told what the database does; metrics hang on it. Calls come from the
// writer and from Attach, Detach and Close, and must be quick.
type Observer interface {
	// Committed is called after each transaction with the time it took, the
	// number of updates in it, and its error.
	Committed(took time.Duration, updates int, err error)
	// Published is called when a zone has a new version.
	Published(origin zone.Name, v *zone.Version, journal int)
	// Withdrawn is called when a zone has no users any more.
	Withdrawn(origin zone.Name)
	// StateChanged is called when the database starts or stops refusing updates.
	StateChanged(s State)
}

// State is whether the database takes updates.
type State int32

// States of a DB.
const (
	Writable   State = iota
	Recovering       // the store failed; answers continue, updates are refused
	Stopped
)

func (s State) String() string {
	return [...]string{"writable", "recovering", "stopped"}[s]
}

// Open starts the writer on a store, which the DB owns from then on. Zones are
// loaded by Attach.
func Open(s store.Store, o Options) (*DB, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Log == nil {
		o.Log = func(string, string) {}
	}
	d := &DB{store: s, opts: o, queue: make(chan *request, queueLength), done: make(chan struct{})}
	d.zones.Store(&map[zone.Name]*Zone{})
	if err := d.followers.load(s); err != nil {
		return nil, err
	}
	o.Observer.StateChanged(Writable)
	go d.write()
	return d, nil
}

// Zone returns a loaded zone, or nil.
func (d *DB) Zone(origin zone.Name) *Zone { return (*d.zones.Load())[origin] }

// Zones lists the loaded zones in no particular order.
func (d *DB) Zones() []zone.Name {
	var names []zone.Name
	for n := range *d.zones.Load() {
		names = append(names, n)
	}
	return names
}

// State says whether updates are taken.
func (d *DB) State() State { return State(d.state.Load()) }

// Stats are the store's sizes.
func (d *DB) Stats() store.Stats { return d.store.Stats() }

// Backup writes a consistent copy of the store to w while updates go on.
func (d *DB) Backup(ctx context.Context, w store.Writer) (int64, error) {
	return d.store.Backup(ctx, w)
}

// Close refuses further updates, finishes those that wait, and closes the
// store. Versions stay readable. It may be called more than once.
func (d *DB) Close() error {
	d.closing.Lock()
	first := d.stopped.CompareAndSwap(false, true)
	if first {
		close(d.queue)
	}
	d.closing.Unlock()
	<-d.done
	if !first {
		return nil
	}
	d.setState(Stopped)
	d.subscribers.kick()
	if err := d.store.Close(); err != nil {
		return fmt.Errorf("closing the store: %w", err)
	}
	return nil
}

func (d *DB) setState(s State) {
	if State(d.state.Swap(int32(s))) != s {
		d.opts.Observer.StateChanged(s)
	}
}

// addZone and removeZone replace the table; mu is held.
func (d *DB) addZone(z *Zone) {
	m := maps.Clone(*d.zones.Load())
	m[z.origin] = z
	d.zones.Store(&m)
}

func (d *DB) removeZone(origin zone.Name) {
	m := maps.Clone(*d.zones.Load())
	delete(m, origin)
	d.zones.Store(&m)
	d.opts.Observer.Withdrawn(origin)
}

// Zone is one loaded zone.
type Zone struct {
	origin  zone.Name
	db      *DB
	current atomic.Pointer[published]

	refs    int                    // guarded by db.mu
	journal journal                // owned by the writer once attached
	static  atomic.Pointer[string] // digest of the merged static records; nil: none. Written by the writer
	keep    int                    // changesets at most; owned by the writer once attached
}

// published is a version with the position it is the outcome of; both change in
// one pointer switch, so that a reader never pairs one with another's.
type published struct {
	version *zone.Version
	last    store.Position
	journal journal // its outline as it was then
}

// merged is the digest of the static records that the zone has; "" before any.
func (z *Zone) merged() string {
	if s := z.static.Load(); s != nil {
		return *s
	}
	return ""
}

// Origin is the zone's apex.
func (z *Zone) Origin() zone.Name { return z.origin }

// Version is the zone as it is now. It is immutable; a query loads it once.
func (z *Zone) Version() *zone.Version { return z.current.Load().version }

// Result is the outcome of an accepted update.
type Result struct {
	Changed   bool
	Serial    zone.Serial     // of this update's changeset, or of the zone when nothing changed
	Position  store.Position  // of this update's changeset; 0 when nothing changed
	Changeset *zone.Changeset // nil when nothing changed
	Version   *zone.Version   // a published version that includes the update
}

// Update applies u to the zone. When it returns without error the result is
// durable and visible to every query that starts afterwards. A *zone.Error is the
// client's fault and changed nothing; ErrUnavailable, ErrBusy and ErrStopped are
// ours. ctx bounds the wait for the writer only: once the writer has taken the
// update, its outcome is awaited.
func (z *Zone) Update(ctx context.Context, u zone.Update) (Result, error) {
	res, err := z.db.submit(ctx, []part{{zone: z, plan: func(c *zone.Candidate, now uint32) (*zone.Changeset, error) { return c.Plan(u, now) }}})
	if err != nil {
		return Result{}, err
	}
	return res[0], nil
}

// Last is the position of a zone's newest changeset, 0 when it is not loaded.
func (d *DB) Last(origin zone.Name) store.Position {
	if z := d.Zone(origin); z != nil {
		return z.current.Load().last
	}
	return 0
}

// Snapshot is a zone as it is published, with the position of its newest
// changeset; nil when it is not loaded.
func (d *DB) Snapshot(origin zone.Name) (v *zone.Version, last store.Position) {
	if z := d.Zone(origin); z != nil {
		p := z.current.Load()
		return p.version, p.last
	}
	return nil, 0
}

// Journal yields a zone's published changesets with positions in (after, upto].
// See store.Store.
func (d *DB) Journal(ctx context.Context, origin zone.Name, after, upto store.Position) iter.Seq2[store.Entry, error] {
	return d.store.Journal(ctx, origin, after, min(upto, d.Last(origin)))
}

type noObserver struct{}

func (noObserver) Committed(time.Duration, int, error)     {}
func (noObserver) Published(zone.Name, *zone.Version, int) {}
func (noObserver) Withdrawn(zone.Name)                     {}
func (noObserver) StateChanged(State)                      {}

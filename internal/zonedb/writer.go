package zonedb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// part is what a request wants of one zone. plan reads the candidate only.
type part struct {
	zone   *Zone
	plan   func(c *zone.Candidate, now uint32) (*zone.Changeset, error)
	static string // when not empty, the new digest of the merged static records
	keep   int    // with it: the most changesets to keep
}

// request is a unit that is applied whole or not at all.
type request struct {
	parts []part
	state atomic.Int32 // waiting, taken or cancelled
	done  chan struct{}

	// owned by the writer until done is closed
	results []Result
	err     error
}

const (
	waiting = iota
	taken
	cancelled
)

// submit queues a request and waits for its outcome.
func (d *DB) submit(ctx context.Context, parts []part) ([]Result, error) {
	r := &request{parts: parts, done: make(chan struct{})}
	if err := d.enqueue(r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, cancelled) {
			return nil, fmt.Errorf("waiting for the writer: %w", ctx.Err())
		}
		<-r.done
	}
	return r.results, r.err
}

func (d *DB) enqueue(r *request) error {
	d.closing.RLock()
	defer d.closing.RUnlock()
	if d.stopped.Load() {
		return ErrStopped
	}
	if d.State() == Recovering {
		return fmt.Errorf("%w: recovering from a failed commit", ErrUnavailable)
	}
	select {
	case d.queue <- r:
		return nil
	default:
		return ErrBusy
	}
}

// write is the single writer: the only goroutine that commits and publishes.
func (d *DB) write() {
	defer close(d.done)
	for {
		first, ok := <-d.queue
		if !ok {
			return
		}
		batch := d.gather(first)
		if len(batch) > 0 {
			d.process(batch)
		}
	}
}

// gathering bounds how long the writer waits for more updates to share a
// transaction with.
const (
	gatherPause = 20 * time.Microsecond
	gatherMost  = 2 * time.Millisecond
)

// gather takes what else is queued. Clients that were answered just now are about
// to send again, so it waits for as many as shared the last transactions, but no
// longer than half of what a transaction takes: one with fifty updates costs
// hardly more than one with a single update. It sleeps rather than yields: on one
// processor only a sleeping writer lets the network be read. A lone client never
// waits.
func (d *DB) gather(first *request) []*request {
	batch := take(nil, first)
	start := time.Now()
	for {
		runtime.Gosched()
		for more := true; more && len(batch) < batchLength; {
			select {
			case r, ok := <-d.queue:
				if !ok { // Close: write sees it too, once this batch is done
					return batch
				}
				batch = take(batch, r)
			default:
				more = false
			}
		}
		if len(batch) >= min(d.crowd, batchLength) || time.Since(start) > min(d.commitTook/2, gatherMost) {
			break
		}
		time.Sleep(gatherPause)
	}
	d.crowd = max(len(batch), d.crowd-1-d.crowd/16)
	return batch
}

func take(batch []*request, r *request) []*request {
	if r.state.CompareAndSwap(waiting, taken) {
		return append(batch, r)
	}
	return batch
}

// process brings a batch to its end: every request in it is answered.
func (d *DB) process(batch []*request) {
	const replans = 3
	for try := 0; ; try++ {
		t, err := d.contain(batch)
		if err != nil {
			if len(batch) > 1 {
				d.alone(batch)
				return
			}
			batch[0].results, batch[0].err = nil, err
			finish(batch)
			return
		}
		err = d.commit(t)
		switch {
		case err == nil:
			d.publish(t)
			finish(batch)
			return
		case errors.Is(err, store.ErrRefused) && len(t.accepted) > 1:
			// Certain to have written nothing, because of one of them: alone, only
			// that one fails.
			d.alone(batch)
			return
		case errors.Is(err, store.ErrRefused):
			t.fail(fmt.Errorf("committing: %w", err))
			finish(batch)
			return
		case errors.Is(err, store.ErrConflict) && try < replans:
			// Somebody else wrote to the store: catch up and plan again.
			if err := d.catchUp(t.zones()); err == nil {
				for _, r := range batch {
					r.results, r.err = nil, nil
				}
				continue
			}
			fallthrough
		default:
			t.fail(fmt.Errorf("%w: committing: %w", ErrUnavailable, err))
			d.setState(Recovering)
			finish(batch)
			d.recover(t.zones(), err)
			return
		}
	}
}

// alone brings each request of a batch to its end by itself.
func (d *DB) alone(batch []*request) {
	for _, r := range batch {
		r.results, r.err = nil, nil
		d.process([]*request{r})
	}
}

// contain plans, and turns a panic into an error: a bug that one request finds must
// not end the process, and again with each repetition. What was planned by then
// is in candidates that nobody has seen.
func (d *DB) contain(batch []*request) (t *transaction, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("planning panicked: %v", v)
			if len(batch) == 1 {
				d.opts.Log("error", fmt.Sprintf("Panic while planning an update: %v\n%s", v, debug.Stack()))
			}
		}
	}()
	return d.plan(batch), nil
}

func finish(batch []*request) {
	for _, r := range batch {
		close(r.done)
	}
}

// transaction is a planned batch.
type transaction struct {
	order    []*Zone
	drafts   map[*Zone]*draft
	accepted []*request // those whose outcome hangs on the commit
	updates  int
}

// draft is one zone's part of a transaction.
type draft struct {
	candidate  *zone.Candidate
	base       *published
	changesets []*zone.Changeset
	static     string
	keep       int
	trimBefore store.Position
}

func (t *transaction) draft(z *Zone) *draft {
	dr := t.drafts[z]
	if dr == nil {
		p := z.current.Load()
		dr = &draft{candidate: p.version.Candidate(), base: p, keep: z.keep}
		t.drafts[z] = dr
		t.order = append(t.order, z)
	}
	return dr
}

func (t *transaction) zones() []*Zone { return t.order }

func (t *transaction) fail(err error) {
	for _, r := range t.accepted {
		r.results, r.err = nil, err
	}
}

// plan works through the batch in order. A request that is refused leaves no
// trace: its parts are all planned before the first is applied.
func (d *DB) plan(batch []*request) *transaction {
	now := uint32(d.opts.Now().Unix())
	t := &transaction{drafts: make(map[*Zone]*draft)}
	for _, r := range batch {
		changes := make([]*zone.Changeset, len(r.parts))
		for i, p := range r.parts {
			if changes[i], r.err = d.planPart(t, p, now); r.err != nil {
				break
			}
		}
		if r.err != nil {
			continue
		}
		r.results = make([]Result, len(r.parts))
		for i, p := range r.parts {
			dr := t.draft(p.zone)
			if changes[i] != nil {
				if err := dr.candidate.Apply(changes[i]); err != nil {
					panic(fmt.Sprintf("zonedb: a planned changeset does not apply to %s: %v", p.zone.origin, err))
				}
				dr.changesets = append(dr.changesets, changes[i])
				r.results[i] = Result{
					Changed: true, Changeset: changes[i],
					Position: dr.base.last + store.Position(len(dr.changesets)),
				}
			}
			if p.static != "" {
				dr.static, dr.keep = p.static, p.keep
			}
			r.results[i].Serial = dr.candidate.Serial()
		}
		// Even one that changed nothing may rest on a change of this batch.
		t.accepted = append(t.accepted, r)
		t.updates++
	}
	return t
}

func (d *DB) planPart(t *transaction, p part, now uint32) (*zone.Changeset, error) {
	if d.Zone(p.zone.origin) != p.zone {
		return nil, fmt.Errorf("%s: %w", p.zone.origin, ErrNoZone)
	}
	dr := t.draft(p.zone)
	if p.static != "" && p.static == cmp.Or(dr.static, p.zone.merged()) {
		return nil, nil // the same records: nothing else changes those that are static
	}
	return p.plan(dr.candidate, now)
}

// commit makes the transaction durable; nothing to write is success.
func (d *DB) commit(t *transaction) error {
	var zones []store.ZoneCommit
	for _, z := range t.order {
		dr := t.drafts[z]
		if len(dr.changesets) == 0 && (dr.static == "" || dr.static == z.merged()) {
			continue
		}
		dr.trimBefore = d.trimBefore(z, dr)
		nodes := make(map[zone.Name]zone.Node, dr.candidate.TouchedCount())
		for owner, n := range dr.candidate.Touched() {
			nodes[owner] = n
		}
		zones = append(zones, store.ZoneCommit{
			Origin: z.origin, After: dr.base.last, Changesets: dr.changesets, Nodes: nodes,
			Serial: dr.candidate.Serial(), Static: dr.static, TrimBefore: dr.trimBefore,
		})
	}
	if len(zones) == 0 {
		return nil
	}
	start := time.Now()
	// Not the requests' contexts: a commit is never half-cancelled.
	err := d.store.Commit(context.Background(), zones)
	d.commitTook = time.Since(start)
	d.opts.Observer.Committed(d.commitTook, t.updates, err)
	return err
}

// trimBefore says what the commit may drop from the journal's start.
func (d *DB) trimBefore(z *Zone, dr *draft) store.Position {
	hold := dr.base.last + 1
	p, followed := d.followers.slowest(z.origin)
	if followed {
		hold = min(hold, p+1)
	} else if dr.base.last == 0 {
		// What creates a zone leads away from no version that a secondary could
		// have, and a follower that is new begins behind it. It is as large as
		// the zone, and would be read at each start.
		return store.Position(len(dr.changesets)) + 1
	}
	return z.journal.excess(dr.keep, dr.candidate.Counts().Records, hold)
}

// publish makes a committed transaction visible and tells whoever listens.
func (d *DB) publish(t *transaction) {
	changed := false
	for _, z := range t.order {
		dr := t.drafts[z]
		if dr.static != "" {
			z.static.Store(&dr.static)
			z.keep = dr.keep
		}
		if len(dr.changesets) == 0 {
			continue
		}
		changed = true
		for _, cs := range dr.changesets {
			z.journal.add(cs)
		}
		z.journal.trim(dr.trimBefore)
		z.set(dr.candidate.Version(), dr.base.last+store.Position(len(dr.changesets)))
		d.opts.Observer.Published(z.origin, z.Version(), len(z.journal.entries))
	}
	for _, r := range t.accepted {
		for i, p := range r.parts {
			r.results[i].Version = p.zone.Version()
		}
	}
	if changed {
		d.subscribers.kick()
	}
}

// set publishes a version; only the writer, or Attach before the zone is in the
// table, calls it.
func (z *Zone) set(v *zone.Version, last store.Position) {
	z.current.Store(&published{version: v, last: last, journal: z.journal})
}

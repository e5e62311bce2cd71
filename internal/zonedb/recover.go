package zonedb

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Pauses between attempts to read the store after a failed commit.
const (
	recoverFirst = 20 * time.Millisecond
	recoverMost  = 5 * time.Second
)

// recover runs after a commit whose outcome is unknown, until memory and store
// agree again. Updates are refused meanwhile and answers go on from the versions
// published before. The writer itself runs it: nothing else may commit.
func (d *DB) recover(zones []*Zone, cause error) {
	d.opts.Log("error", fmt.Sprintf("The store failed to commit, updates are refused until it can be read again: %v", cause))
	pause := recoverFirst
	for {
		err := d.catchUp(zones)
		if err == nil {
			d.setState(Writable)
			d.opts.Log("info", "The store is read again, updates are taken")
			return
		}
		d.opts.Log("error", fmt.Sprintf("Reading the store after a failed commit: %v", err))
		if d.waitStopped(pause) {
			return
		}
		pause = min(2*pause, recoverMost)
	}
}

// waitStopped sleeps, refusing whatever is still queued; it reports true as soon
// as the database is being closed.
func (d *DB) waitStopped(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case r, ok := <-d.queue:
			if !ok {
				return true
			}
			if r.state.CompareAndSwap(waiting, taken) {
				r.err = fmt.Errorf("%w: recovering from a failed commit", ErrUnavailable)
				close(r.done)
			}
		case <-timer.C:
			return false
		}
	}
}

// catchUp brings zones to what the store holds. What it holds beyond the
// published versions is replayed from the journal; where that does not fit, the
// zone is loaded anew.
func (d *DB) catchUp(zones []*Zone) error {
	for _, z := range zones {
		if err := d.replay(z); err == nil {
			continue
		}
		if err := d.reload(z); err != nil {
			return fmt.Errorf("loading %s: %w", z.origin, err)
		}
	}
	d.subscribers.kick()
	return nil
}

// replay applies the entries the store has past the published version, the same
// way an ordinary publish would.
func (d *DB) replay(z *Zone) error {
	p := z.current.Load()
	c, last := p.version.Candidate(), p.last
	j := z.journal
	j.entries = slices.Clip(j.entries)
	for e, err := range d.store.Journal(context.Background(), z.origin, p.last, math.MaxUint64) {
		if err != nil {
			return err
		}
		if e.Position != last+1 {
			return fmt.Errorf("journal of %s: entry %d follows %d", z.origin, e.Position, last)
		}
		if err := c.Apply(e.Changeset); err != nil {
			return fmt.Errorf("journal of %s, entry %d: %w", z.origin, e.Position, err)
		}
		j.add(e.Changeset)
		last = e.Position
	}
	// The journal alone does not prove that the state agrees with it: the
	// serial stored beside the state does.
	state, found, err := d.store.Load(context.Background(), z.origin, nil)
	switch {
	case err != nil:
		return err
	case !found && last == 0:
		return nil
	case !found || state.Last != last || state.Serial != c.Serial():
		return fmt.Errorf("state of %s does not follow from its journal", z.origin)
	}
	z.journal = j
	z.static.Store(&state.Static)
	z.journal.trim(state.Oldest)
	if last != p.last {
		z.set(c.Version(), last)
		d.opts.Observer.Published(z.origin, z.Version(), len(z.journal.entries))
	}
	return nil
}

// reload replaces a zone in memory by what the store holds.
func (d *DB) reload(z *Zone) error {
	fresh, found, err := d.load(context.Background(), z.origin)
	if err != nil {
		return err
	}
	if !found && z.current.Load().last > 0 {
		return fmt.Errorf("the store has lost it")
	}
	p := fresh.current.Load()
	if now := z.current.Load().last; p.last < now {
		// Another file in its place: to serve it would take versions back that were
		// seen. A restart does, for who means it.
		return fmt.Errorf("the store is at change %d of %s, which is older than change %d that is served: restart to serve what the store has", p.last, z.origin, now)
	}
	z.journal = fresh.journal
	z.static.Store(fresh.static.Load())
	if p.version.Serial() == z.Version().Serial() && p.last == z.current.Load().last {
		return nil
	}
	z.set(p.version, p.last)
	d.opts.Observer.Published(z.origin, z.Version(), len(z.journal.entries))
	return nil
}

// load reads a zone from the store into a Zone that is not yet in the table.
func (d *DB) load(ctx context.Context, origin zone.Name) (*Zone, bool, error) {
	z := &Zone{origin: origin, db: d}
	b := zone.NewBuilder(origin)
	state, found, err := d.store.Load(ctx, origin, b.Put)
	if err != nil {
		return nil, false, err
	}
	if !found {
		z.journal.oldest = 1
		z.set(zone.NewVersion(origin), 0)
		return z, false, nil
	}
	z.static.Store(&state.Static)
	z.journal.oldest = state.Oldest
	next := state.Oldest
	for e, err := range d.store.Journal(ctx, origin, state.Oldest-1, state.Last) {
		if err != nil {
			return nil, false, fmt.Errorf("reading the journal: %w", err)
		}
		if e.Position != next {
			return nil, false, fmt.Errorf("the journal has entry %d where %d belongs", e.Position, next)
		}
		z.journal.add(e.Changeset)
		next++
	}
	if next != state.Last+1 {
		return nil, false, fmt.Errorf("the journal ends at %d, the zone is at %d", next-1, state.Last)
	}
	v := b.Version()
	if v.Serial() != state.Serial {
		return nil, false, fmt.Errorf("the SOA has serial %d, the zone was stored with %d", v.Serial(), state.Serial)
	}
	z.set(v, state.Last)
	return z, true, nil
}

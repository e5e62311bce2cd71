package hooks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// adoptZones gives each loaded zone without a cursor one that says "from now".
// Zones are adopted where nothing can have changed unseen: at Start, and in
// Configure before the caller opens them for updates.
func (d *Dispatcher) adoptZones() {
	for _, origin := range d.opts.Journal.Zones() {
		if _, known := d.cursors[origin]; known {
			continue
		}
		if v, last := d.snapshot(origin); v != nil {
			d.beginAt(origin, last)
		}
	}
}

// snapshot is that of the journal, and nil too for a zone that is being created: its
// first records are what the Dispatcher starts from.
func (d *Dispatcher) snapshot(origin zone.Name) (*zone.Version, store.Position) {
	v, last := d.opts.Journal.Snapshot(origin)
	if v == nil || v.SOA().Empty() {
		return nil, 0
	}
	return v, last
}

// beginAt sets a cursor that does not continue from an earlier one.
func (d *Dispatcher) beginAt(origin zone.Name, last store.Position) {
	d.cursors[origin] = last
	delete(d.stored, origin)
	for _, f := range d.defs {
		// A zone that was removed and made again counts from 1 again.
		if f.since[origin] > last {
			f.since[origin] = last
			d.note(f)
		}
	}
}

// follow reads what the zones' journals have beyond the cursors, and marks it. It
// leaves them alone, and returns false, while the store does not take what there is.
func (d *Dispatcher) follow() bool {
	switch {
	case d.store.failures > 0 && d.unsaved():
		return false
	case d.opts.Now().Before(d.reading.until):
		return true // next knows
	}
	for _, origin := range d.opts.Journal.Zones() {
		v, last := d.snapshot(origin)
		at, known := d.cursors[origin]
		switch {
		case v == nil || known && at == last:
		case !known:
			d.beginAt(origin, last)
		case at > last:
			d.opts.Log("warning", fmt.Sprintf("Hooks were at a position that the zone does not have, and go on from its newest change: zone=%s position=%d newest=%d", origin, at, last))
			d.beginAt(origin, last)
		default:
			changes, err := d.read(v, at, last)
			if errors.Is(err, store.ErrTrimmed) {
				d.opts.Log("warning", fmt.Sprintf("The journal does not go back to where hooks were, changes are lost to them: zone=%s position=%d newest=%d", origin, at, last))
			} else if err != nil {
				d.failed(&d.reading, fmt.Errorf("reading the journal of %s: %w", origin, err))
				return true
			}
			d.mark(origin, changes)
			d.cursors[origin] = last
		}
	}
	d.reading = backoff{}
	return true
}

// stateKey is one RRset of a zone.
type stateKey struct {
	owner zone.Name
	typ   uint16
}

// read returns the changes in (after, last] that some definition may want, in
// order. A changeset has only the records that go and come; what was there before
// and after is worked out backwards from the version at last.
func (d *Dispatcher) read(v *zone.Version, after, last store.Position) ([]*mark, error) {
	var entries []store.Entry
	for e, err := range d.opts.Journal.Journal(context.Background(), v.Origin(), after, last) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if len(entries) != int(last-after) {
		return nil, fmt.Errorf("%d entries from %d to %d", len(entries), after+1, last)
	}
	now := d.opts.Now().UnixMilli()
	states := make(map[stateKey]zone.RRset)
	var changes []*mark
	for _, e := range slices.Backward(entries) {
		from := len(changes)
		serial, _ := store.SOASerial(e.Changeset.To)
		for k, step := range d.touched(e.Changeset) {
			to, seen := states[k]
			if !seen {
				to, _ = v.RRset(k.owner, k.typ)
				to.Owner, to.Type = k.owner, k.typ
			}
			before, err := undo(to, step.deleted, step.added)
			if err != nil {
				return nil, fmt.Errorf("position %d: %w", e.Position, err)
			}
			states[k] = before
			m := &mark{
				origin: v.Origin(), owner: k.owner, typ: k.typ, old: present(before), new: present(to),
				serial: serial, position: e.Position, unix: e.Changeset.Cause.Unix,
				source: e.Changeset.Cause.Source, actor: e.Changeset.Cause.Actor, since: now,
			}
			if m.old != m.new { // else only the static mark changed
				changes = append(changes, m)
			}
		}
		slices.SortFunc(changes[from:], func(a, b *mark) int { // reversed as a whole below
			if c := b.owner.Compare(a.owner); c != 0 {
				return c
			}
			return int(b.typ) - int(a.typ)
		})
	}
	slices.Reverse(changes)
	return changes, nil
}

// difference is what one changeset does to one RRset.
type difference struct{ deleted, added zone.RRset }

// touched are the RRsets of a changeset that some definition may want.
func (d *Dispatcher) touched(cs *zone.Changeset) map[stateKey]difference {
	out := make(map[stateKey]difference)
	for _, set := range cs.Deleted {
		if d.interesting(set.Owner, set.Type) {
			out[stateKey{set.Owner, set.Type}] = difference{deleted: set}
		}
	}
	for _, set := range cs.Added {
		if d.interesting(set.Owner, set.Type) {
			k := stateKey{set.Owner, set.Type}
			out[k] = difference{out[k].deleted, set}
		}
	}
	return out
}

// interesting reports whether some definition wants some event of an RRset, or did
// when it was another.
func (d *Dispatcher) interesting(owner zone.Name, typ uint16) bool {
	return slices.ContainsFunc(d.order, func(f *definition) bool {
		return wantsAny(f.hook, owner, typ) || f.subjects[owner] != nil && typ != dns.TypeSOA
	})
}

// undo returns the RRset that deleted and added led away from.
func undo(to, deleted, added zone.RRset) (zone.RRset, error) {
	var datas []string
	for data := range to.Data() {
		if !added.Has(data) {
			datas = append(datas, data)
		}
	}
	if len(datas) != to.Len()-added.Len() {
		return zone.RRset{}, fmt.Errorf("%s %s does not have the records that were added", to.Owner, zone.TypeString(to.Type))
	}
	for data := range deleted.Data() {
		datas = append(datas, data)
	}
	before, err := to.WithData(datas)
	if !deleted.Empty() {
		before.TTL = deleted.TTL // a change of TTL deletes the records and adds them again
	}
	return before, err
}

// mark takes in the changes of a zone.
func (d *Dispatcher) mark(origin zone.Name, changes []*mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, next := range changes {
		for _, f := range d.order {
			if next.position <= f.since[origin] {
				continue
			}
			if f.subjects[next.owner] == nil && !wants(f.hook, next) {
				continue
			}
			own := *next
			own.id = newID(d.opts.Now(), d.opts.Rand)
			s := f.subject(next.owner)
			if s.change(&own) {
				d.dirty[markKey{f.hook.Name, own.owner, own.origin, own.typ}] = true
			}
			s.tidy()
			d.enqueue(s)
		}
	}
}

// maxLag is how many changes that no hook wants are read again after a crash. To
// store the cursor for each would double the work of the disk.
const maxLag = 512

// unsaved reports whether memory and store differ in what is to be told.
func (d *Dispatcher) unsaved() bool { return len(d.dirty) > 0 || len(d.notes) > 0 }

// moved returns the cursors that the store does not have, and whether that is worth
// a transaction of its own.
func (d *Dispatcher) moved() (cursors map[zone.Name]store.Position, worth bool) {
	cursors = make(map[zone.Name]store.Position)
	for _, origin := range d.opts.Journal.Zones() {
		at, known := d.cursors[origin]
		was, stored := d.stored[origin]
		if known && (!stored || was != at) {
			cursors[origin] = at
			worth = worth || !stored || at-was >= maxLag
		}
	}
	return cursors, worth
}

// flush makes all of it durable in one transaction: marks and cursors, so that
// neither is ever without the other.
func (d *Dispatcher) flush(ctx context.Context, force bool) error {
	cursors, worth := d.moved()
	if !d.unsaved() && !worth && (!force || len(cursors) == 0) {
		return nil
	}
	if d.opts.Now().Before(d.store.until) {
		return d.store.err
	}
	a := store.Advance{Follower: Follower, Cursors: cursors}
	for k := range d.dirty {
		var m *mark
		if f := d.defs[k.hook]; f != nil && !f.gone && f.subjects[k.owner] != nil {
			m = f.subjects[k.owner].stored(k)
		}
		if m == nil {
			a.Delete = append(a.Delete, k.item())
		} else {
			a.Put = append(a.Put, store.Item{Key: k.item(), Value: m.encode(k.hook)})
		}
	}
	for key, value := range d.notes {
		if value == nil {
			a.Delete = append(a.Delete, key)
		} else {
			a.Put = append(a.Put, store.Item{Key: key, Value: value})
		}
	}
	if err := d.opts.Journal.Advance(ctx, a); err != nil {
		err = fmt.Errorf("storing what hooks have still to be told: %w", err)
		d.failed(&d.store, err)
		return err
	}
	if d.store.failures > 0 {
		d.opts.Log("info", "What hooks have to be told is stored again")
	}
	d.store = backoff{}
	for origin, at := range a.Cursors {
		d.stored[origin] = at
	}
	clear(d.dirty)
	clear(d.notes)
	return nil
}

// failed leaves the store alone for a while. Nothing is lost: marks stay dirty,
// cursors where they are.
func (d *Dispatcher) failed(b *backoff, err error) {
	if b.failures == 0 {
		d.opts.Log("error", fmt.Sprintf("Hooks wait for the store: %v", err))
	}
	b.failures++
	b.err = err
	b.until = d.opts.Now().Add(min(storePause<<min(b.failures-1, 10), storePauseMost))
}

// Pauses between attempts to use a store that failed.
const (
	storePause     = 100 * time.Millisecond
	storePauseMost = 10 * time.Second
)

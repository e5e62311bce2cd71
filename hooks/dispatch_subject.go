package hooks

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// definition is one hook of the policy with what is to be told to it.
type definition struct {
	hook     *policy.Hook
	since    map[zone.Name]store.Position // changes up to here are older than the definition
	subjects map[zone.Name]*subject       // by owner: those with something to tell
	ready    []*subject                   // whose first mark is due, first come first served
	running  int
	away     backoff // its executor cannot be reached
	dead     []grave // what was given up, oldest first, and what is not there any more
	gone     bool    // not in the policy any more, kept for what still runs
	last     []LastResult
}

// subject is one owner as one hook sees it: what runs, what waits in the order
// of the changes, and what was given up.
type subject struct {
	def     *definition
	owner   zone.Name
	waiting []*mark
	dead    []*mark
	running *mark

	queued bool      // in def.ready
	wakeAt time.Time // of the entry in Dispatcher.later; zero without one
}

// grave is an event that was given up, and whose.
type grave struct {
	s *subject
	m *mark
}

func (g grave) taken() bool { return !slices.Contains(g.s.dead, g.m) }

// bury gives an event of s up, and returns those that are too many by that.
func (f *definition) bury(s *subject, m *mark, most int) (dropped []grave) {
	m.dead, m.due = true, time.Time{}
	s.dead = append(s.dead, m)
	if f.dead = append(f.dead, grave{s, m}); len(f.dead) <= most {
		return nil
	}
	f.dead = slices.DeleteFunc(f.dead, grave.taken)
	for len(f.dead) > most {
		g := f.dead[0]
		f.dead = slices.Delete(f.dead, 0, 1)
		g.s.dead = slices.DeleteFunc(g.s.dead, func(m *mark) bool { return m == g.m })
		g.s.tidy()
		dropped = append(dropped, g)
	}
	return dropped
}

func (f *definition) subject(owner zone.Name) *subject {
	s := f.subjects[owner]
	if s == nil {
		s = &subject{def: f, owner: owner}
		f.subjects[owner] = s
	}
	return s
}

// tidy forgets a subject that has nothing left to tell.
func (s *subject) tidy() {
	if len(s.waiting) == 0 && len(s.dead) == 0 && s.running == nil {
		delete(s.def.subjects, s.owner)
	}
}

// take removes and returns what waits, or was given up, for the key of m.
func (s *subject) take(m *mark) *mark {
	for _, list := range []*[]*mark{&s.waiting, &s.dead} {
		if i := slices.IndexFunc(*list, m.same); i >= 0 {
			found := (*list)[i]
			*list = slices.Delete(*list, i, i+1)
			return found
		}
	}
	return nil
}

// wait puts m where its change belongs in time.
func (s *subject) wait(m *mark) {
	i, _ := slices.BinarySearchFunc(s.waiting, m, func(a, b *mark) int {
		// Equal ones go in front of it: they were there before.
		return cmp.Or(cmp.Compare(a.position, b.position), cmp.Compare(a.typ, b.typ), -1)
	})
	s.waiting = slices.Insert(s.waiting, i, m)
}

// change takes in a change of the zone. It reports whether what is stored for the
// key of next may be another now.
func (s *subject) change(next *mark) bool {
	prev := s.take(next)
	m := next
	switch {
	case prev != nil:
		m = supersede(s.def.hook, prev, next)
	case !wants(s.def.hook, next):
		m = nil
	}
	if m != nil {
		s.wait(m)
	}
	if r := s.running; r != nil && r.same(next) {
		r.stale = m == nil && next.new != r.new
	}
	return prev != nil || m != nil
}

// stored is the mark the store is to have for a key: what a successor must still
// tell should this process end now, not knowing how a run ended.
func (s *subject) stored(k markKey) *mark {
	key := &mark{owner: k.owner, origin: k.origin, typ: k.typ}
	var w *mark
	for _, list := range [][]*mark{s.waiting, s.dead} {
		if i := slices.IndexFunc(list, key.same); i >= 0 {
			w = list[i]
		}
	}
	r := s.running
	switch {
	case r == nil || !r.same(key):
		return w
	case w == nil:
		return r
	}
	return supersede(s.def.hook, r, w)
}

// dueEntry says when a subject is to be looked at.
type dueEntry struct {
	at time.Time
	s  *subject
}

type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return e
}

// enqueue puts a subject where launch will find it, when it has something to tell.
func (d *Dispatcher) enqueue(s *subject) {
	if s.running != nil || s.queued || len(s.waiting) == 0 || s.def.gone {
		return
	}
	due := s.waiting[0].due
	if !due.After(d.opts.Now()) {
		s.queued = true
		s.def.ready = append(s.def.ready, s)
		return
	}
	if s.wakeAt.IsZero() || due.Before(s.wakeAt) {
		s.wakeAt = due
		heap.Push(&d.later, dueEntry{due, s})
	}
}

// promote makes ready what has waited long enough.
func (d *Dispatcher) promote() {
	now := d.opts.Now()
	for len(d.later) > 0 && !d.later[0].at.After(now) {
		e := heap.Pop(&d.later).(dueEntry)
		if e.s.wakeAt.Equal(e.at) {
			e.s.wakeAt = time.Time{}
		}
		d.enqueue(e.s)
	}
}

// pick takes the next subject to run. Definitions take turns, and one may have a
// second run only while each of the others could still start its first: a hook that
// hangs keeps no other from running.
func (d *Dispatcher) pick() *subject {
	limit := d.parallel()
	idle := 0
	for _, f := range d.order {
		if f.running == 0 {
			idle++
		}
	}
	for i := range d.order {
		f := d.order[(d.turn+i)%len(d.order)]
		free := limit - d.running
		if free <= 0 || f.running > 0 && free <= idle || d.opts.Now().Before(f.away.until) {
			continue
		}
		if s := d.first(f); s != nil {
			d.turn = (d.turn + i + 1) % len(d.order)
			return s
		}
	}
	return nil
}

// first takes the subject of a definition that has been ready for longest.
func (d *Dispatcher) first(f *definition) *subject {
	now := d.opts.Now()
	for len(f.ready) > 0 {
		s := f.ready[0]
		f.ready[0] = nil
		f.ready = f.ready[1:]
		s.queued = false
		if s.running == nil && len(s.waiting) > 0 && !s.waiting[0].due.After(now) {
			return s
		}
		d.enqueue(s) // what was due has been overtaken
	}
	f.ready = nil
	return nil
}

// parallel is how many hooks may run at once: as many of one as a policy with that
// one alone would have, and one of each other.
func (d *Dispatcher) parallel() int {
	if d.opts.Parallel > 0 {
		return d.opts.Parallel
	}
	return DefaultParallel + max(0, len(d.order)-1)
}

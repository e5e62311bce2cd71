package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// Errors of Retry, Discard and Test, wrapped with what was asked for.
var (
	ErrNoHook   = errors.New("no such hook")
	ErrNoRecord = errors.New("no record that the hook wants")
	ErrRunning  = errors.New("the hook runs for this name")
)

// Bounds of a Listing.
const (
	keepResults = 16  // results per hook
	listEvents  = 500 // events per hook
)

// A Listing is what an operator wants to know of each hook, in the policy's order.
type Listing struct {
	Hooks []HookListing `json:"hooks"`
}

// HookListing is one hook.
type HookListing struct {
	HookStats
	// Events are those that run, wait or were given up; the newest of many are
	// left out.
	Events  []ListedEvent `json:"events"`
	LeftOut int           `json:"left_out"`
	Last    []LastResult  `json:"last"` // since the start of the process, newest last
}

// HookStats are the numbers of one hook.
type HookStats struct {
	Hook    string `json:"hook"`
	Pending int    `json:"pending"` // waiting or running
	Running int    `json:"running"`
	Dead    int    `json:"dead"` // given up, kept until the name changes or somebody decides
	// Oldest is when the oldest pending change was seen; zero without one.
	Oldest time.Time `json:"oldest,omitzero"`
}

// ListedEvent is an event with its state: running, waiting or dead.
type ListedEvent struct {
	Event
	State string    `json:"state"`
	Since time.Time `json:"since"`           // the oldest change in it was seen
	Due   time.Time `json:"due,omitzero"`    // when it is tried again
	Error string    `json:"error,omitempty"` // how the last attempt failed
}

// LastResult is the outcome of one attempt.
type LastResult struct {
	ID      string    `json:"id"`
	Event   string    `json:"event"`
	FQDN    string    `json:"fqdn"`
	Type    string    `json:"type"`
	Attempt int       `json:"attempt"`
	Result  string    `json:"result"` // as DispatchObserver.Attempt
	Error   string    `json:"error,omitempty"`
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"`
	ByHand  bool      `json:"by_hand,omitempty"`
}

// Stats returns the numbers of each hook, for a metrics scrape.
func (d *Dispatcher) Stats() []HookStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	stats := make([]HookStats, 0, len(d.order))
	for _, f := range d.order {
		stats = append(stats, f.stats(func(string, *mark) {}))
	}
	return stats
}

// stats counts, and shows each mark that counts.
func (f *definition) stats(see func(state string, m *mark)) HookStats {
	st := HookStats{Hook: f.hook.Name}
	oldest := int64(0)
	pending := func(state string, m *mark) {
		see(state, m)
		st.Pending++
		if oldest == 0 || m.since < oldest {
			oldest = m.since
		}
	}
	for _, s := range f.subjects {
		if s.running != nil && !s.running.test {
			st.Running++
			pending("running", s.running)
		}
		for _, m := range s.waiting {
			pending("waiting", m)
		}
		for _, m := range s.dead {
			see("dead", m)
			st.Dead++
		}
	}
	if oldest != 0 {
		st.Oldest = time.UnixMilli(oldest).UTC()
	}
	return st
}

// List returns what runs, waits and was given up, and the last results.
func (d *Dispatcher) List() Listing {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := Listing{Hooks: []HookListing{}}
	for _, f := range d.order {
		type seen struct {
			state string
			m     *mark
		}
		var all []seen
		h := HookListing{Last: slices.Clone(f.last), Events: []ListedEvent{}}
		h.HookStats = f.stats(func(state string, m *mark) { all = append(all, seen{state, m}) })
		slices.SortFunc(all, func(a, b seen) int {
			return cmp.Or(cmp.Compare(a.m.since, b.m.since), cmp.Compare(a.m.id, b.m.id))
		})
		for _, s := range all[:min(len(all), listEvents)] {
			e := ListedEvent{Event: *s.m.event(f.hook.Name), State: s.state, Since: time.UnixMilli(s.m.since).UTC(), Error: s.m.trouble}
			if s.state == "waiting" && !s.m.due.IsZero() {
				e.Due = s.m.due.UTC()
			}
			h.Events = append(h.Events, e)
		}
		h.LeftOut = len(all) - len(h.Events)
		l.Hooks = append(l.Hooks, h)
	}
	return l
}

// definition finds a hook of the policy.
func (d *Dispatcher) definition(hook string) (*definition, error) {
	if f := d.defs[hook]; f != nil && !f.gone {
		return f, nil
	}
	return nil, fmt.Errorf("hook %s: %w", hook, ErrNoHook)
}

// chosen are the subjects of an owner, or all when owner is "".
func (f *definition) chosen(owner zone.Name) []*subject {
	var list []*subject
	for _, s := range f.subjects {
		if owner == "" || s.owner == owner {
			list = append(list, s)
		}
	}
	return list
}

// Retry has a hook try again at once what was given up and what waits for its next
// attempt, for one owner or, when owner is "", for all. An event that was given up
// keeps its id and gets as many attempts as a new one. It returns how many events
// that were, once that is durable.
func (d *Dispatcher) Retry(ctx context.Context, hook string, owner zone.Name) (n int, err error) {
	return d.alter(ctx, hook, owner, func(s *subject, touch func(*mark)) {
		for _, m := range s.dead {
			m.dead, m.failures = false, 0
			touch(m)
			s.wait(m)
		}
		s.dead = nil
		for _, m := range s.waiting {
			if !m.due.IsZero() {
				m.due = time.Time{}
				touch(m)
			}
		}
	})
}

// Discard forgets what was given up and what waits, for one owner or, when owner is
// "", for all. What runs goes on, and is not tried again when it fails. It returns
// how many events were forgotten, once that is durable.
func (d *Dispatcher) Discard(ctx context.Context, hook string, owner zone.Name) (n int, err error) {
	return d.alter(ctx, hook, owner, func(s *subject, touch func(*mark)) {
		for _, m := range slices.Concat(s.dead, s.waiting) {
			touch(m)
		}
		s.dead, s.waiting = nil, nil
		if s.running != nil {
			s.running.stale = true
		}
	})
}

// alter does something to the marks of subjects.
func (d *Dispatcher) alter(ctx context.Context, hook string, owner zone.Name, do func(s *subject, touch func(*mark))) (int, error) {
	touched := make(map[*mark]bool)
	err := d.perform(ctx, func(phase) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		f, err := d.definition(hook)
		if err != nil {
			return err
		}
		for _, s := range f.chosen(owner) {
			do(s, func(m *mark) {
				touched[m] = true
				d.dirty[markKey{hook, m.owner, m.origin, m.typ}] = true
			})
			s.tidy()
			d.enqueue(s)
		}
		f.away = backoff{} // somebody says that it is worth an attempt
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(touched), nil
}

// Test runs a hook by hand for a name as it is now, without changing it: the event
// is "changed" with the same records before and after, of the first type that the
// hook wants and the name has. Nothing is stored and nothing tried again. It takes
// its turn with the events of the name, so it is refused with ErrRunning while one
// runs. ctx bounds the run.
func (d *Dispatcher) Test(ctx context.Context, hook string, owner zone.Name) (*Event, *hooksv1.ExecuteHookResponse, error) {
	runs, cancel := context.WithCancelCause(d.runs)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	reply := make(chan *run, 1)
	err := d.perform(ctx, func(p phase) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		f, err := d.definition(hook)
		if err != nil {
			return err
		}
		m, err := d.sample(f, owner)
		switch s := f.subjects[owner]; {
		case err != nil:
			return err
		case p != following:
			return ErrDispatcherStopped
		case s != nil && s.running != nil:
			return fmt.Errorf("hook %s, name %s: %w", hook, owner, ErrRunning)
		case d.byHand >= DefaultParallel:
			return fmt.Errorf("%w by hand: %d", ErrBusy, d.byHand)
		}
		d.byHand++
		d.begin(f.subject(owner), m, runs, reply)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	select {
	case r := <-reply:
		return r.event, r.resp, r.err
	case <-d.done:
		return nil, nil, ErrDispatcherStopped
	}
}

// sample makes the mark of a run by hand.
func (d *Dispatcher) sample(f *definition, owner zone.Name) (*mark, error) {
	var in *zone.Version
	for _, origin := range d.opts.Journal.Zones() {
		v, _ := d.snapshot(origin)
		if v != nil && owner.Within(origin) && (in == nil || len(origin) > len(in.Origin())) {
			in = v
		}
	}
	if in != nil {
		now := d.opts.Now()
		for set := range in.Node(owner).RRsets(owner) {
			m := &mark{
				id: newID(now, d.opts.Rand), origin: in.Origin(), owner: owner, typ: set.Type, old: present(set), new: present(set),
				serial: in.Serial(), unix: now.Unix(), since: now.UnixMilli(), source: "test", test: true,
			}
			if wantsAny(f.hook, owner, set.Type) {
				return m, nil
			}
		}
	}
	return nil, fmt.Errorf("hook %s, name %s: %w", f.hook.Name, owner, ErrNoRecord)
}

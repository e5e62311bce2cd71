package hooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// hookItem is what the store keeps of a definition: from where on it is told of
// changes. It is what tells a new hook from one that was there before a restart.
type hookItem struct {
	Version int                       `json:"v"`
	Since   map[string]store.Position `json:"since"` // by zone
}

// remains are what a predecessor left in the store.
type remains struct {
	known map[string]map[zone.Name]store.Position // since, by hook
	marks map[string][]*mark                      // by hook
}

// load reads cursors and items.
func (d *Dispatcher) load() (remains, error) {
	left := remains{known: make(map[string]map[zone.Name]store.Position), marks: make(map[string][]*mark)}
	cursors, err := d.opts.Journal.Cursors(Follower)
	if err != nil {
		return left, fmt.Errorf("reading where hooks are: %w", err)
	}
	for origin, at := range cursors {
		d.cursors[origin], d.stored[origin] = at, at
	}
	for it, err := range d.opts.Journal.Items(Follower, "") {
		if err != nil {
			return left, fmt.Errorf("reading what hooks have still to be told: %w", err)
		}
		switch {
		case strings.HasPrefix(it.Key, markPrefix):
			hook, m, err := decodeMark(it.Value)
			if err != nil {
				// Kept: a later version may be able to read it.
				d.opts.Log("warning", fmt.Sprintf("A pending event of a hook cannot be read and is left alone: key=%q: %v", it.Key, err))
				continue
			}
			left.marks[hook] = append(left.marks[hook], m)
		case strings.HasPrefix(it.Key, hookPrefix):
			left.known[strings.TrimPrefix(it.Key, hookPrefix)] = decodeSince(it.Value)
		}
	}
	return left, nil
}

// decodeSince reads a hookItem; what it cannot read counts as "from the start",
// which tells too much rather than too little.
func decodeSince(b []byte) map[zone.Name]store.Position {
	since := make(map[zone.Name]store.Position)
	var it hookItem
	if json.Unmarshal(b, &it) == nil {
		for name, at := range it.Since {
			if origin, err := zone.ParseName(name); err == nil {
				since[origin] = at
			}
		}
	}
	return since
}

// note has the next flush store a definition, or forget it.
func (d *Dispatcher) note(f *definition) {
	key := hookPrefix + f.hook.Name
	if f.gone {
		d.notes[key] = nil
		return
	}
	it := hookItem{Version: 1, Since: make(map[string]store.Position)}
	for origin, at := range f.since {
		it.Since[origin.String()] = at
	}
	b, err := json.Marshal(it)
	if err != nil {
		panic("hooks: names and numbers are not JSON: " + err.Error())
	}
	d.notes[key] = b
}

// define puts definitions and executor in force. known says since when the hooks
// of a predecessor were told of changes.
func (d *Dispatcher) define(hooks []*policy.Hook, exec Executor, known map[string]map[zone.Name]store.Position) {
	now := make(map[zone.Name]store.Position)
	for _, origin := range d.opts.Journal.Zones() {
		if v, last := d.snapshot(origin); v != nil {
			now[origin] = last
		}
	}
	dropped := make(map[string]int)
	d.mu.Lock()
	d.exec = exec
	d.order = nil
	for _, h := range hooks {
		f := d.defs[h.Name]
		if f == nil {
			f = &definition{subjects: make(map[zone.Name]*subject), since: known[h.Name]}
			d.defs[h.Name] = f
		}
		f.hook = h
		f.away = backoff{}            // the executor may be another one
		if f.gone || f.since == nil { // new, or back
			f.gone, f.since = false, make(map[zone.Name]store.Position)
			for origin, at := range now {
				f.since[origin] = at
			}
			d.note(f)
		}
		d.order = append(d.order, f)
	}
	for _, f := range d.defs {
		if !f.gone && !slices.Contains(d.order, f) {
			dropped[f.hook.Name] = d.retire(f)
		}
	}
	for name := range known {
		if d.defs[name] == nil {
			d.notes[hookPrefix+name] = nil
		}
	}
	d.mu.Unlock()
	d.logDropped(dropped)
}

func (d *Dispatcher) logDropped(dropped map[string]int) {
	for hook, n := range dropped {
		if n > 0 {
			d.opts.Log("warning", fmt.Sprintf("Events are dropped because their hook is not in the policy any more: hook=%s events=%d", hook, n))
		}
	}
}

// retire drops what waits for a hook that is not in the policy any more. Its runs
// end by themselves, and keep a hook of the same name from overlapping them.
func (d *Dispatcher) retire(f *definition) (dropped int) {
	for _, s := range f.subjects {
		for _, m := range slices.Concat(s.waiting, s.dead, []*mark{s.running}) {
			if m != nil && !m.test {
				d.dirty[markKey{f.hook.Name, m.owner, m.origin, m.typ}] = true
				dropped++
			}
		}
		s.waiting, s.dead = nil, nil
		s.tidy()
	}
	f.gone, f.ready = true, nil
	d.note(f)
	if len(f.subjects) == 0 {
		delete(d.defs, f.hook.Name)
	}
	return dropped
}

// place gives the marks of a predecessor to their definitions, and drops those
// that have none.
func (d *Dispatcher) place(marks map[string][]*mark) {
	dropped := make(map[string]int)
	var lines []string
	d.mu.Lock()
	for hook, list := range marks {
		f := d.defs[hook]
		if f == nil {
			for _, m := range list {
				d.dirty[markKey{hook, m.owner, m.origin, m.typ}] = true
			}
			dropped[hook] = len(list)
			continue
		}
		slices.SortStableFunc(list, func(a, b *mark) int { return cmp.Compare(a.unix, b.unix) }) // the oldest are dropped first
		for _, m := range list {
			s := f.subject(m.owner)
			if m.dead {
				lines = append(lines, d.bury(s, m)...)
			} else {
				s.wait(m)
			}
		}
		for _, s := range f.subjects {
			d.enqueue(s)
		}
	}
	d.mu.Unlock()
	d.logDropped(dropped)
	for _, line := range lines {
		d.opts.Log("warning", line)
	}
}

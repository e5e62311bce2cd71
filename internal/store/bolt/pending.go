package bolt

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/wal"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// pending is what the log holds and the database does not: commits that are durable
// and acknowledged, and that readers see on top of the database.
//
// A reader takes what it needs from here first and looks into the database
// afterwards: what leaves here is in the database by then.
type pending struct {
	mu      sync.Mutex
	commits []logged            // guarded by mu; in order
	zones   map[zone.Name]*tail // guarded by mu
}

// logged is one record of the log.
type logged struct {
	number uint64
	parts  []part
	mark   wal.Mark // behind it; nothing when another process wrote it
}

// tail is the end of a zone's journal.
type tail struct {
	state   store.State
	first   store.Position // of entries[0]
	entries [][]byte       // appended to, and cut at the front: a copy stays as it is
}

func (p *pending) add(c logged) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.zones == nil {
		p.zones = make(map[zone.Name]*tail)
	}
	p.commits = append(p.commits, c)
	for _, part := range c.parts {
		t := p.zones[part.origin]
		if t == nil {
			t = &tail{first: part.after + 1}
			p.zones[part.origin] = t
		}
		t.state = part.next
		t.entries = append(t.entries, part.entries...)
	}
}

// tail returns the end of a zone's journal as it is now; ok is false when all of
// it is in the database.
func (p *pending) tail(origin zone.Name) (t tail, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.zones[origin]; t != nil {
		return *t, true
	}
	return tail{}, false
}

// nodes returns the owners of a zone that changed, as they are after the last of
// the commits, the state that they belong to, and the first of their positions.
func (p *pending) nodes(origin zone.Name) (map[zone.Name]zone.Node, store.State, store.Position, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.zones[origin]
	if t == nil {
		return nil, store.State{}, 0, false
	}
	nodes := make(map[zone.Name]zone.Node)
	for _, c := range p.commits {
		for _, part := range c.parts {
			if part.origin == origin {
				maps.Copy(nodes, part.nodes)
			}
		}
	}
	return nodes, t.state, t.first, true
}

// all returns the commits that wait.
func (p *pending) all() []logged {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.commits)
}

// empty reports whether nothing waits.
func (p *pending) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.commits) == 0
}

// moved lets go of the first n commits, which are in the database now.
func (p *pending) moved(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.commits[:n] {
		for _, part := range c.parts {
			t := p.zones[part.origin]
			done := part.next.Last + 1 - t.first
			t.entries, t.first = t.entries[done:], part.next.Last+1
		}
	}
	p.commits = slices.Clone(p.commits[n:])
	left := make(map[zone.Name]bool)
	for _, c := range p.commits {
		for _, part := range c.parts {
			left[part.origin] = true
		}
	}
	maps.DeleteFunc(p.zones, func(origin zone.Name, _ *tail) bool { return !left[origin] })
}

// merge makes one part for each zone of commits that follow each other.
func merge(commits []logged) iter.Seq[*part] {
	return func(yield func(*part) bool) {
		var order []*part
		of := make(map[zone.Name]*part)
		for _, c := range commits {
			for _, p := range c.parts {
				m := of[p.origin]
				if m == nil {
					m = &part{origin: p.origin, after: p.after, nodes: make(map[zone.Name]zone.Node)}
					of[p.origin] = m
					order = append(order, m)
				}
				m.next = p.next
				m.entries = append(m.entries, p.entries...)
				maps.Copy(m.nodes, p.nodes)
			}
		}
		for _, m := range order {
			if !yield(m) {
				return
			}
		}
	}
}

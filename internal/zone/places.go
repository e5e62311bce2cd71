package zone

import "slices"

// places numbers owners in the order in which they are first asked for, once they
// are many. Those of a zone file or of a changeset come in canonical order, so that an
// index is made only when they do not: of a million names it would cost more than what
// it is asked for.
type places struct {
	names    []Name
	last     int  // place asked for last
	disorder bool // names are not ascending
	index    map[Name]int
}

// fewOwners is how many are looked through one by one, without places.
const fewOwners = 8

// newPlaces has room for expected names.
func newPlaces(expected int) *places { return &places{names: make([]Name, 0, expected)} }

// of returns the place of an owner; added tells that it is new.
func (p *places) of(owner Name) (at int, added bool) {
	n := len(p.names)
	if n > 0 {
		// One owner's records follow one another, and several passes take the same way.
		next := p.last + 1
		if next == n {
			next = 0
		}
		switch owner {
		case p.names[p.last]:
			return p.last, false
		case p.names[next]:
			p.last = next
			return next, false
		}
		if i, ok := p.find(owner); ok {
			p.last = i
			return i, false
		}
		p.disorder = p.disorder || p.names[n-1].Compare(owner) > 0
	}
	p.names = append(p.names, owner)
	if p.index != nil {
		p.index[owner] = n
	}
	p.last = n
	return n, true
}

func (p *places) find(owner Name) (int, bool) {
	if !p.disorder {
		if p.names[len(p.names)-1].Compare(owner) < 0 {
			return 0, false
		}
		return slices.BinarySearchFunc(p.names, owner, Name.Compare)
	}
	if p.index == nil {
		p.index = make(map[Name]int, cap(p.names))
		for i, name := range p.names {
			p.index[name] = i
		}
	}
	i, ok := p.index[owner]
	return i, ok
}

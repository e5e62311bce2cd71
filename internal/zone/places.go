package zone

import (
	"slices"
)

// places numbers owners in the order in which they are first asked for. Those of a
// zone file or of a changeset come in canonical order, so that an index is made only
// when they do not: of a million names it would cost more than what it is asked for.
type places struct {
	names    []Name
	few      [2]Name // backing of names: most updates touch one owner
	last     int     // place asked for last
	disorder bool    // names are not ascending; looked at once they are many
	index    map[Name]int
}

// manyPlaces is how many names are still looked through one by one.
const manyPlaces = 8

// of returns the place of an owner; added tells that it is new. expected is how
// many more may come.
func (p *places) of(owner Name, expected int) (at int, added bool) {
	n := len(p.names)
	if n == 0 {
		p.names = p.few[:0]
	} else {
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
	}
	switch {
	case n == manyPlaces:
		p.names = slices.Grow(p.names, expected)
		p.disorder = !slices.IsSortedFunc(p.names, Name.Compare) || p.names[n-1].Compare(owner) > 0
	case n > manyPlaces && !p.disorder:
		p.disorder = p.names[n-1].Compare(owner) > 0
	}
	p.names = append(p.names, owner)
	if p.index != nil {
		p.index[owner] = n
	}
	p.last = n
	return n, true
}

func (p *places) find(owner Name) (int, bool) {
	n := len(p.names)
	if n <= manyPlaces {
		i := slices.Index(p.names, owner)
		return i, i >= 0
	}
	if !p.disorder {
		if p.names[n-1].Compare(owner) < 0 {
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

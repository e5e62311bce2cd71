package zone

import "iter"

// fileSet is an RRset being gathered from a file. Nearly all have one record.
type fileSet struct {
	owner Name
	data  string // its first record
	more  []string
	line  int // of its first record
	next  int // of the same owner, in fileSets.all; 0 after the last
	ttl   uint32
	typ   uint16
}

// fileSets holds the RRsets of a file in the order of their first records. The sets
// of an owner are chained, because a file has most of them one after the other: a
// map with the types in its keys would be most of the cost of reading.
type fileSets struct {
	all   []fileSet
	first map[Name]int // the first set of each owner, in all

	owner Name // looked up last
	head  int  // its first set
	known bool // it has one
}

// look makes owner the one looked up last.
func (f *fileSets) look(owner Name) {
	if f.owner != owner || !f.known {
		f.owner = owner
		f.head, f.known = f.first[owner]
	}
}

// of yields the sets of an owner. They move when one is added.
func (f *fileSets) of(owner Name) iter.Seq[*fileSet] {
	return func(yield func(*fileSet) bool) {
		f.look(owner)
		if !f.known {
			return
		}
		for i := f.head; ; {
			s := &f.all[i]
			if !yield(s) || s.next == 0 {
				return
			}
			i = s.next
		}
	}
}

// at returns the set of an owner and type, nil when there is none.
func (f *fileSets) at(owner Name, typ uint16) *fileSet {
	for s := range f.of(owner) {
		if s.typ == typ {
			return s
		}
	}
	return nil
}

// add makes a set of its first record. There is none of that owner and type.
func (f *fileSets) add(owner Name, typ uint16, ttl uint32, data string, line int) {
	f.look(owner)
	i := len(f.all)
	if f.known {
		last := f.head
		for f.all[last].next != 0 {
			last = f.all[last].next
		}
		f.all[last].next = i
		owner = f.all[last].owner // one string for all
	} else {
		f.first[owner] = i
		f.head, f.known = i, true
	}
	f.all = append(f.all, fileSet{owner: owner, typ: typ, ttl: ttl, data: data, line: line})
}

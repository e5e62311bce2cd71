package zone

import (
	"iter"

	"github.com/miekg/dns"
)

// Version is one immutable state of a zone. Any number of goroutines may read it
// while later versions are made; it shares structure with them.
type Version struct {
	origin Name
	index  trie
	gen    uint64 // of the edits that made it; those of its Candidates are later
	counts Counts

	// What Lookup need not walk for when there is none of it in the zone.
	cuts      int // owners below the apex with NS
	dnames    int // owners with DNAME
	wildcards int // owners and empty non-terminals whose first label is *

	soa    RRset
	serial Serial
	// negative is the SOA of negative answers, with the TTL of RFC 2308,
	// section 3. Answers get a copy.
	negative dns.SOA
}

// Counts are the sizes of a Version, kept up to date in constant time.
type Counts struct {
	Names   int // owners with at least one RRset
	RRsets  int
	Records int
	Static  int // records of the operator's file
}

// NewVersion returns the zone with no record at all, not even an SOA: where
// loading starts.
func NewVersion(origin Name) *Version {
	return &Version{origin: origin, index: newTrie(hashName)}
}

// Origin is the zone's apex.
func (v *Version) Origin() Name { return v.origin }

// SOA is the zone's SOA RRset; empty before the first.
func (v *Version) SOA() RRset { return v.soa }

// Serial is the serial of SOA, 0 without one.
func (v *Version) Serial() Serial { return v.serial }

// Counts returns the sizes.
func (v *Version) Counts() Counts { return v.counts }

// Node returns all RRsets of an owner; empty for an empty non-terminal or a name
// that does not exist. The apex node includes the SOA.
func (v *Version) Node(owner Name) Node {
	n, _ := v.find(owner)
	return n
}

// RRset returns one RRset.
func (v *Version) RRset(owner Name, typ uint16) (RRset, bool) {
	return v.Node(owner).RRset(owner, typ)
}

// All yields every owner that has records, with its node, in no particular order.
func (v *Version) All() iter.Seq2[Name, Node] {
	return func(yield func(Name, Node) bool) {
		v.index.root.all(func(l leaf) bool {
			n := l.node()
			return n == "" || yield(l.owner(), n)
		})
	}
}

// find returns an owner's node and whether the name exists, be it as an empty
// non-terminal.
func (v *Version) find(owner Name) (Node, bool) {
	l := v.index.get(owner)
	if l == "" {
		return "", false
	}
	return l.node(), true
}

// soaSerial reads the serial of an SOA's rdata: it is followed by four more
// fields of four octets (RFC 1035, section 3.3.13).
func soaSerial(soa RRset) Serial {
	if len(soa.data) < 2+22 {
		return 0
	}
	f := soa.data[len(soa.data)-20:]
	return Serial(be16(f))<<16 | Serial(be16(f[2:]))
}

package zone

import (
	"iter"

	"github.com/miekg/dns"
)

// IXFR yields the difference sequences of RFC 1995, section 4 for a chain of
// changesets, oldest first, that ends in a version whose SOA is current: the SOA;
// per changeset the old SOA, the deleted records, the new SOA and the added ones;
// the SOA again. An empty chain yields the SOA alone, which tells the secondary
// that it is up to date (section 2).
//
// A chain that a secondary could not follow, because a link is missing, it ends
// elsewhere, or it starts before the zone's first version, yields nothing at all:
// the zone has to be sent whole.
func IXFR(current RRset, chain []*Changeset) iter.Seq[dns.RR] {
	return func(yield func(dns.RR) bool) {
		if current.Empty() || !follows(current, chain) {
			return
		}
		send := func(sets ...RRset) bool {
			for i := range sets {
				for _, rr := range sets[i].RRs() {
					if !yield(rr) {
						return false
					}
				}
			}
			return true
		}
		if !send(current) || len(chain) == 0 {
			return
		}
		for _, c := range chain {
			if !send(c.From) || !send(c.Deleted...) || !send(c.To) || !send(c.Added...) {
				return
			}
		}
		send(current)
	}
}

// follows reports whether the chain leads from a version to the current one.
func follows(current RRset, chain []*Changeset) bool {
	for i, c := range chain {
		if c.From.Empty() || c.To.Empty() || i > 0 && !sameSOA(chain[i-1].To, c.From) {
			return false
		}
	}
	return len(chain) == 0 || sameSOA(chain[len(chain)-1].To, current)
}

// sameSOA compares what goes over the wire: the static mark does not.
func sameSOA(a, b RRset) bool {
	a.Static = b.Static
	return a == b
}

package zone

import (
	"iter"

	"github.com/miekg/dns"
)

// AXFR yields a whole version as RFC 5936, section 2.2 orders it: the SOA, every
// other record, the SOA again. Nothing is hidden: glue and what lies below cuts
// and DNAMEs are part of the zone. A version without an SOA yields nothing.
func (v *Version) AXFR() iter.Seq[dns.RR] {
	return func(yield func(dns.RR) bool) {
		if v.soa.Empty() || !yield(v.soa.RRs()[0]) {
			return
		}
		for owner, n := range v.All() {
			text := owner.String()
			for set := range n.RRsets(owner) {
				if set.Type == dns.TypeSOA {
					continue
				}
				for _, rr := range set.AppendRRs(nil, text) {
					if !yield(rr) {
						return
					}
				}
			}
		}
		yield(v.soa.RRs()[0])
	}
}

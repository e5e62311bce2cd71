package zone_test

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// comparison is one question with the answers of this package and of plugin/file.
type comparison struct {
	o            *oracle
	qname        string
	qtype        uint16
	ours, theirs zone.Answer
}

func same(a, b []dns.RR) bool { return slices.Equal(sorted(a), sorted(b)) }

// contains reports whether every record of b is in a.
func contains(a, b []dns.RR) bool {
	all := sorted(a)
	for _, s := range sorted(b) {
		if !slices.Contains(all, s) {
			return false
		}
	}
	return true
}

// normalise takes away the differences that are in nearly every answer.
func (c *comparison) normalise() {
	// RFC 2181, section 5: "It is meaningless for two records to ever have label, class,
	// type and data all equal - servers should suppress such duplicates if encountered".
	for _, s := range []*[]dns.RR{&c.theirs.Answer, &c.theirs.Authority, &c.theirs.Additional} {
		if len(*s) > 1 {
			*s = dns.Dedup(slices.Clone(*s), nil)
		}
	}
	// RFC 1034, section 4.3.2, step 3.a: "copy all RRs which match QTYPE into the answer
	// section and go to step 6": no NS beside a positive answer; plugin/file adds the apex's.
	if len(c.ours.Answer) > 0 && c.ours.Authority == nil && same(c.theirs.Authority, c.o.naive.records(oracleOrigin, dns.TypeNS)) {
		c.theirs.Authority = nil
	}
	// RFC 2308, section 3: "The TTL of this record is set from the minimum of the
	// MINIMUM field of the SOA record and the TTL of the SOA itself".
	for i, rr := range c.theirs.Authority {
		if soa, ok := rr.(*dns.SOA); ok {
			soa = dns.Copy(soa).(*dns.SOA)
			soa.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl)
			c.theirs.Authority = slices.Clone(c.theirs.Authority)
			c.theirs.Authority[i] = soa
		}
	}
}

// difference is one way in which plugin/file answers otherwise. Why is the sentence
// that makes ours the better answer, which the naive zone gives too.
type difference struct {
	name, why string
	is        func(c *comparison) bool
}

// rest reports whether all but the additional section is the same.
func (c *comparison) rest() bool {
	return c.ours.Rcode == c.theirs.Rcode && c.ours.Authoritative == c.theirs.Authoritative &&
		same(c.ours.Answer, c.theirs.Answer) && same(c.ours.Authority, c.theirs.Authority)
}

// followed reports whether our answer has a CNAME that was followed.
func (c *comparison) followed() bool {
	return slices.ContainsFunc(c.ours.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeCNAME }) && c.qtype != dns.TypeCNAME
}

// last is the name that the chain of our answer ends at.
func (c *comparison) last() string {
	name := c.qname
	for _, rr := range c.ours.Answer { // each alias follows the one before
		if cname, ok := rr.(*dns.CNAME); ok && cname.Hdr.Name == name {
			name = cname.Target
		}
	}
	return name
}

var differences = []difference{
	{
		"ANY", "RFC 1035, section 3.2.3: \"* 255 A request for all records\"; plugin/file looks for records of type 255",
		func(c *comparison) bool { return c.qtype == dns.TypeANY },
	},
	{
		"addresses", "RFC 1034, section 4.3.2, step 6: \"Using local data only, attempt to add other RRs which may be useful to the additional section of the query\"; once each (RFC 2181, section 5.5), and nothing that is hidden but for name servers",
		func(c *comparison) bool {
			for _, rr := range c.theirs.Additional {
				if n := rr.Header().Name; !contains(c.ours.Additional, []dns.RR{rr}) && c.o.naive.cut(n) == "" && c.o.naive.dname(n) == "" {
					return false // an address that is not hidden
				}
			}
			return c.rest()
		},
	},
	{
		"RRSIG and NSEC beside an alias", "RFC 4035, section 2.5: \"If a CNAME RRset is present at a name in a signed zone, appropriate RRSIG and NSEC RRsets are REQUIRED at that name\": they are asked for there; plugin/file follows the CNAME",
		func(c *comparison) bool {
			return (c.qtype == dns.TypeRRSIG || c.qtype == dns.TypeNSEC) &&
				(len(c.theirs.Answer) > len(c.ours.Answer) || c.o.naive.records(c.qname, dns.TypeCNAME) != nil)
		},
	},
	{
		"wildcard beside an empty non-terminal", "RFC 4592, section 2.2.2: \"Empty non-terminals ... are domain names that own no resource records but have subdomains that do\", and a wildcard is no source for a name that exists (section 3.3.1); plugin/file lets it answer for them",
		func(c *comparison) bool {
			last := c.last()
			return c.o.naive.exists(last) && c.o.naive.records(last, dns.TypeANY) == nil
		},
	},
	{
		"DNAME above an alias's target", "RFC 6672, section 3.2, step 3: the search starts again with each new name, and the DNAME is met on the way; plugin/file takes the node of a target as it stands",
		func(c *comparison) bool {
			return slices.ContainsFunc(c.ours.Answer, func(rr dns.RR) bool {
				return rr.Header().Rrtype == dns.TypeCNAME && rr.Header().Name != c.qname && c.o.naive.dname(rr.Header().Name) != ""
			})
		},
	},
	{
		"loop", "RFC 1034, section 3.6.2: \"domain software should not fail when presented with CNAME chains or loops\": the resolver, whose error it is to signal, gets each record of the loop once; plugin/file answers SERVFAIL, or the records many times",
		func(c *comparison) bool {
			last := c.last()
			return c.theirs.Rcode == dns.RcodeServerFailure && c.ours.Rcode == dns.RcodeSuccess && c.ours.Authority == nil && (last == c.qname || slices.ContainsFunc(c.ours.Answer, func(rr dns.RR) bool {
				return rr.Header().Rrtype == dns.TypeCNAME && rr.Header().Name == last
			}))
		},
	},
	{
		"referral after several aliases", "RFC 1034, section 4.3.2, step 3.b: \"Copy the NS RRs for the subzone into the authority section of the reply\"; plugin/file loses them when it asks itself",
		func(c *comparison) bool {
			cut := c.o.naive.cut(c.last())
			return cut != "" && contains(c.ours.Authority, c.o.naive.records(cut, dns.TypeNS)) && same(c.ours.Answer, c.theirs.Answer) &&
				same(c.theirs.Authority, c.o.naive.records(oracleOrigin, dns.TypeNS))
		},
	},
	{
		"NODATA after an alias", "RFC 2308, section 2.2 and 3: NODATA has the SOA in the authority section, and NS there is for referrals; plugin/file adds the apex NS",
		func(c *comparison) bool {
			return c.followed() && len(c.ours.Authority) == 1 && c.ours.Authority[0].Header().Rrtype == dns.TypeSOA &&
				same(c.theirs.Authority, c.o.naive.records(oracleOrigin, dns.TypeNS)) && same(c.ours.Answer, c.theirs.Answer) && c.ours.Rcode == c.theirs.Rcode
		},
	},
}

// difference names the way in which the answers differ; "" when it has no name.
func (c *comparison) difference() string {
	c.normalise()
	if sections(c.ours) == sections(c.theirs) {
		return noDifference
	}
	for _, d := range differences {
		if d.is(c) {
			return d.name
		}
	}
	return ""
}

const noDifference = "none"

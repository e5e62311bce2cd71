package zone

import "github.com/miekg/dns"

// maxAliases is how many CNAMEs and DNAMEs Lookup follows for one question.
const maxAliases = 16

// Answer is what the zone says to one question, ready to be put in a message.
// The slices are the caller's: fresh RRs, clipped.
//
// A positive answer has no Authority: the NS RRset there would tell a resolver
// nothing that it did not just use to get here (RFC 1034, section 4.3.2 asks for
// it in referrals only), and cost an online signer one more signature.
type Answer struct {
	Rcode         int
	Authoritative bool // false for a referral
	Answer        []dns.RR
	Authority     []dns.RR // the SOA alone for NODATA and NXDOMAIN
	Additional    []dns.RR
	// Alias is the target of a CNAME or DNAME chain that left the zone or was
	// cut at its limit; empty otherwise. Rcode and Answer hold the chain so far.
	Alias Name
}

// Lookup answers a question about a name within the zone as an authoritative
// server does: RFC 1034, section 4.3.2; RFC 2308; RFC 4592; RFC 6672. qname is the
// query's own spelling, which answers repeat; name is its canonical form. dnssec
// (the DO bit) adds the DS RRset to a referral.
//
// A chain of aliases that comes back to itself is answered with each of its
// records once and NOERROR: the resolver sees the loop (RFC 1034, section 3.6.2).
// Without an SOA there is no zone to speak for: SERVFAIL; REFUSED for a name that
// is not within the zone.
func (v *Version) Lookup(qname string, name Name, qtype uint16, dnssec bool) Answer {
	switch {
	case v.soa.Empty():
		return Answer{Rcode: dns.RcodeServerFailure}
	case !name.Within(v.origin):
		return Answer{Rcode: dns.RcodeRefused}
	}
	a := Answer{Authoritative: true}
	var chain [maxAliases]Name // the names asked before this one
	for hops := 0; ; hops++ {
		m := v.match(name)
		var target Name
		switch {
		case m.kind == atCut && !(m.owner == name && qtype == dns.TypeDS):
			v.refer(&a, m, dnssec)
			// RFC 1035, section 4.1.1: AA speaks of the first owner in the answer.
			a.Authoritative = len(a.Answer) > 0
			return a

		case m.kind == belowDNAME:
			if target = v.redirect(&a, qname, name, m); target == "" {
				return a
			}
			if qtype == dns.TypeCNAME || qtype == dns.TypeANY {
				return a // the CNAME made from the DNAME is what was asked for
			}

		case m.kind == noName:
			a.Rcode = dns.RcodeNameError
			a.Authority = v.negativeSOA()
			return a

		default:
			alias, ok := m.node.RRset(m.owner, dns.TypeCNAME)
			if !ok || MatchesCNAME(qtype) {
				v.answer(&a, qname, name, qtype, m)
				return a
			}
			a.Answer = alias.AppendRRs(a.Answer, qname)
			target = Name(alias.data[2:]) // the one name that is its rdata, in lower case
		}

		chain[hops] = name
		for _, n := range chain[:hops+1] {
			if n == target {
				return a
			}
		}
		if hops == maxAliases-1 || !target.Within(v.origin) {
			a.Alias = target
			return a
		}
		name, qname = target, target.String()
	}
}

// MatchesCNAME reports whether a type asks for what is at an alias itself: CNAME
// and ANY (RFC 1034, section 4.3.2), and the types of DNSSEC that live beside a
// CNAME (RFC 4035, section 2.5).
func MatchesCNAME(qtype uint16) bool {
	switch qtype {
	case dns.TypeCNAME, dns.TypeANY, dns.TypeRRSIG, dns.TypeNSEC:
		return true
	}
	return false
}

// answer adds the RRsets of qtype, or says that there are none.
func (v *Version) answer(a *Answer, qname string, name Name, qtype uint16, m match) {
	if qtype == dns.TypeANY {
		for set := range m.node.RRsets(m.owner) {
			a.Answer = set.AppendRRs(a.Answer, qname)
		}
		if m.node == "" {
			a.Authority = v.negativeSOA()
		}
		return
	}
	set, ok := m.node.RRset(m.owner, qtype)
	if !ok {
		a.Authority = v.negativeSOA()
		return
	}
	if qtype == dns.TypeDNAME && hasRR(a.Answer, qname, qtype) { // the chain came by it
		return
	}
	a.Answer = set.AppendRRs(a.Answer, qname)
	a.Additional = v.additional(nil, set, qname, name)
}

// refer puts the delegation at m in the answer: NS, the DS a validator wants, and
// every address of its servers that the zone knows, be it glue below this or
// another cut.
func (v *Version) refer(a *Answer, m match, dnssec bool) {
	owner := m.owner.String()
	ns, _ := m.node.RRset(m.owner, dns.TypeNS)
	a.Authority = ns.AppendRRs(nil, owner)
	if dnssec {
		if ds, ok := m.node.RRset(m.owner, dns.TypeDS); ok {
			a.Authority = ds.AppendRRs(a.Authority, owner)
		}
	}
	a.Additional = v.additional(nil, ns, owner, m.owner)
}

// redirect adds the DNAME that hides name and the CNAME made from it, and returns
// what the CNAME points to. RFC 6672, section 3.2. It returns "" when that would be
// too long for a name, and the answer is then YXDOMAIN.
func (v *Version) redirect(a *Answer, qname string, name Name, m match) Name {
	set, _ := m.node.RRset(m.owner, dns.TypeDNAME)
	owner := m.owner.String()
	if !hasRR(a.Answer, owner, dns.TypeDNAME) { // a chain can pass the same DNAME twice
		a.Answer = set.AppendRRs(a.Answer, owner)
	}
	prefix, suffix := name[:len(name)-len(m.owner)], Name(set.data[2:])
	if len(prefix)+len(suffix) > MaxNameLength {
		a.Rcode = dns.RcodeYXDomain
		return ""
	}
	target := prefix + suffix
	cname := &dns.CNAME{
		Hdr:    dns.RR_Header{Name: qname, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: set.TTL, Rdlength: uint16(len(target))},
		Target: target.String(),
	}
	a.Answer = append(grow(a.Answer, 1), cname)
	return target
}

func hasRR(rrs []dns.RR, owner string, typ uint16) bool {
	for _, rr := range rrs {
		if h := rr.Header(); h.Rrtype == typ && h.Name == owner {
			return true
		}
	}
	return false
}

// negativeSOA is the authority section of NODATA and NXDOMAIN.
func (v *Version) negativeSOA() []dns.RR {
	one := &struct {
		rr  dns.SOA
		set [1]dns.RR
	}{rr: v.negative}
	one.set[0] = &one.rr
	return one.set[:]
}

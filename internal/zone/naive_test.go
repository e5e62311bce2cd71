package zone_test

import (
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// naiveZone answers as the RFCs say, step by step and with no thought of cost. It shares no code with the package.
type naiveZone struct {
	origin string
	owners map[string][]dns.RR // with an empty entry for each name above one
}

func newNaiveZone(origin string, rrs []dns.RR) naiveZone {
	z := naiveZone{origin, map[string][]dns.RR{}}
	for _, rr := range rrs {
		owner := rr.Header().Name
		for _, n := range z.down(owner) {
			if _, known := z.owners[n]; !known {
				z.owners[n] = nil
			}
		}
		z.owners[owner] = append(z.owners[owner], rr)
	}
	return z
}

func (z naiveZone) records(name string, typ uint16) (rrs []dns.RR) {
	for _, rr := range z.owners[name] {
		if typ == dns.TypeANY || rr.Header().Rrtype == typ {
			rrs = append(rrs, rr)
		}
	}
	return rrs
}

// exists: RFC 4592, section 2.2.2: a name exists if it or a name below it has records.
func (z naiveZone) exists(name string) bool {
	_, ok := z.owners[name]
	return ok
}

// down lists the names from the origin to name, both included.
func (z naiveZone) down(name string) []string {
	names := []string{name}
	for name != z.origin {
		_, name, _ = strings.Cut(name, ".")
		names = append(names, name)
	}
	slices.Reverse(names)
	return names
}

// cut is the topmost delegation at or above name.
func (z naiveZone) cut(name string) string {
	for _, n := range z.down(name)[1:] {
		if z.records(n, dns.TypeNS) != nil {
			return n
		}
	}
	return ""
}

// dname is the topmost owner of a DNAME above name, when no delegation is in between.
func (z naiveZone) dname(name string) string {
	names := z.down(name)
	for i, n := range names[:len(names)-1] {
		if i > 0 && z.records(n, dns.TypeNS) != nil {
			return ""
		}
		if z.records(n, dns.TypeDNAME) != nil {
			return n
		}
	}
	return ""
}

func renamed(rrs []dns.RR, owner string) []dns.RR {
	var out []dns.RR
	for _, rr := range rrs {
		rr = dns.Copy(rr)
		rr.Header().Name = owner
		out = append(out, rr)
	}
	return out
}

func (z naiveZone) soa() []dns.RR {
	soa := dns.Copy(z.records(z.origin, dns.TypeSOA)[0]).(*dns.SOA)
	soa.Hdr.Ttl = min(soa.Hdr.Ttl, soa.Minttl)
	return []dns.RR{soa}
}

func (z naiveZone) addresses(name string) []dns.RR {
	if !dns.IsSubDomain(z.origin, name) {
		return nil
	}
	return append(z.records(name, dns.TypeA), z.records(name, dns.TypeAAAA)...)
}

func (z naiveZone) additional(rrs []dns.RR) (extra []dns.RR) {
	var done []string
	for _, rr := range rrs {
		target, glue := "", false
		switch r := rr.(type) {
		case *dns.NS:
			target, glue = r.Ns, true
		case *dns.MX:
			target = r.Mx
		case *dns.SRV:
			target = r.Target
		case *dns.HTTPS:
			if target = r.Target; target == "." && r.Priority > 0 {
				target = r.Hdr.Name
			}
		}
		if target == "" || slices.Contains(done, target) || !dns.IsSubDomain(z.origin, target) {
			continue
		}
		done = append(done, target)
		if glue || z.cut(target) == "" && z.dname(target) == "" {
			extra = append(extra, z.addresses(target)...)
		}
	}
	return extra
}

func (z naiveZone) lookup(qname string, qtype uint16, do bool) (a zone.Answer) {
	a.Authoritative = true
	asked := []string{}
	for {
		asked = append(asked, qname)
		cut, dname := z.cut(qname), z.dname(qname)
		if cut != "" && dname != "" && dns.IsSubDomain(cut, dname) {
			dname = ""
		}
		target := ""
		switch {
		case dname != "":
			rr := z.records(dname, dns.TypeDNAME)[0].(*dns.DNAME)
			if !slices.ContainsFunc(a.Answer, func(o dns.RR) bool { return dns.IsDuplicate(o, rr) }) {
				a.Answer = append(a.Answer, rr)
			}
			target = strings.TrimSuffix(qname, dname) + strings.TrimPrefix(rr.Target, ".")
			if len(target)+1 > 255 { // no escapes in these names
				a.Rcode = dns.RcodeYXDomain
				return a
			}
			a.Answer = append(a.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: qname, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: rr.Hdr.Ttl}, Target: target})
			if qtype == dns.TypeCNAME || qtype == dns.TypeANY {
				return a
			}
		case cut != "" && !(cut == qname && qtype == dns.TypeDS):
			a.Authoritative = len(a.Answer) > 0
			ns := z.records(cut, dns.TypeNS)
			a.Authority = ns
			if do {
				a.Authority = append(a.Authority, z.records(cut, dns.TypeDS)...)
			}
			a.Additional = z.additional(ns)
			return a
		default:
			source := qname
			if !z.exists(qname) {
				names := z.down(qname)
				encloser := z.origin
				for _, n := range names {
					if z.exists(n) {
						encloser = n
					}
				}
				if source = "*." + encloser; !z.exists(source) {
					a.Rcode = dns.RcodeNameError
					a.Authority = z.soa()
					return a
				}
			}
			alias := z.records(source, dns.TypeCNAME)
			if alias == nil || qtype == dns.TypeCNAME || qtype == dns.TypeANY || qtype == dns.TypeNSEC || qtype == dns.TypeRRSIG {
				found := renamed(z.records(source, qtype), qname)
				if found == nil {
					a.Authority = z.soa()
				} else if qtype != dns.TypeANY {
					a.Additional = z.additional(found)
				}
				a.Answer = dns.Dedup(append(a.Answer, found...), nil)
				return a
			}
			a.Answer = append(a.Answer, renamed(alias, qname)...)
			target = alias[0].(*dns.CNAME).Target
		}
		if slices.Contains(asked, target) {
			return a
		}
		if len(asked) == 16 || !dns.IsSubDomain(z.origin, target) {
			a.Alias = zone.MustName(target)
			return a
		}
		qname = target
	}
}

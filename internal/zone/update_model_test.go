package zone_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// model is RFC 2136 done the slow way: a slice of records and the pseudo-code of
// sections 3.2.5, 3.4.1.3 and 3.4.2.7, line by line. It shares nothing with the
// package. Where it departs from the pseudo-code, a name says so:
//
//   - format first: a malformed prerequisite is found before any is evaluated
//   - text over pseudo-code: an SOA of the zone's own serial is ignored; section
//     3.4.2.2 says "lower ... than or equal", the pseudo-code only "greater"
//   - one TTL: RFC 2181, section 5.2: an RRset has the TTL that was added last
//   - DNAME: RFC 6672, section 5.2 has it follow the rule of CNAME
//   - serial: one step of our own choosing for each message that changes something
type model struct {
	origin string
	rrs    []modelRR
}

type modelRR struct {
	name  string
	typ   uint16
	ttl   uint32
	rdata string // in presentation format and lower case
}

func (z *model) rr(rr dns.RR) modelRR {
	h := rr.Header()
	text := strings.TrimPrefix(rr.String(), h.String())
	return modelRR{strings.ToLower(h.Name), h.Rrtype, h.Ttl, strings.ToLower(text)}
}

func newModel(origin string, rrs []dns.RR) *model {
	z := &model{origin: origin}
	for _, rr := range rrs {
		z.rrs = append(z.rrs, z.rr(rr))
	}
	return z
}

func (z *model) String() string { return z.text(true) }

func (z *model) text(serial bool) string {
	lines := make([]string, len(z.rrs))
	for i, r := range z.rrs {
		if r.typ == dns.TypeSOA && !serial {
			r.rdata = withoutSerial(r.rdata)
		}
		lines[i] = fmt.Sprintf("%s %d %s %s\n", r.name, r.ttl, dns.TypeToString[r.typ], r.rdata)
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func withoutSerial(soa string) string {
	f := strings.Fields(soa)
	f[2] = "SERIAL"
	return strings.Join(f, " ")
}

func (z *model) rrset(name string, match func(typ uint16) bool) (set []modelRR) {
	for _, r := range z.rrs {
		if r.name == name && match(r.typ) {
			set = append(set, r)
		}
	}
	return set
}

func (z *model) drop(match func(r modelRR) bool) { z.rrs = slices.DeleteFunc(z.rrs, match) }

func is(typ uint16) func(uint16) bool  { return func(t uint16) bool { return t == typ } }
func not(typ uint16) func(uint16) bool { return func(t uint16) bool { return t != typ } }
func any2136(uint16) bool              { return true }

func (z *model) inZone(name string) bool { return dns.IsSubDomain(z.origin, name) }

func (z *model) serial() uint32 {
	soa := z.rrset(z.origin, is(dns.TypeSOA))[0]
	return modelSerial(soa)
}

func modelSerial(soa modelRR) (s uint32) {
	if _, err := fmt.Sscan(strings.Fields(soa.rdata)[2], &s); err != nil {
		panic(err)
	}
	return s
}

func (z *model) setSerial(s uint32) {
	for i, r := range z.rrs {
		if r.typ == dns.TypeSOA {
			f := strings.Fields(r.rdata)
			f[2] = fmt.Sprint(s)
			z.rrs[i].rdata = strings.Join(f, " ")
		}
	}
}

// newer1982 is "s1 > s2" of RFC 1982, section 3.2, as it is written there.
func newer1982(s1, s2 uint32) bool {
	i1, i2 := uint64(s1), uint64(s2)
	return i1 < i2 && i2-i1 > 1<<31 || i1 > i2 && i1-i2 < 1<<31
}

var modelMeta = []uint16{dns.TypeANY, dns.TypeAXFR, dns.TypeMAILA, dns.TypeMAILB}

// update applies one message, all or nothing, at the Unix time now.
func (z *model) update(m *dns.Msg, now uint32) int {
	if rcode := z.prerequisites(m.Answer); rcode != dns.RcodeSuccess {
		return rcode
	}
	if rcode := z.prescan(m.Ns); rcode != dns.RcodeSuccess {
		return rcode
	}
	before, serial := z.text(true), z.serial()
	z.apply(m.Ns, serial)
	if z.text(true) == before {
		return dns.RcodeSuccess
	}
	next := serial + 1
	if now != 0 && newer1982(now, next) && newer1982(now, serial) {
		next = now
	}
	if next == 0 {
		next = 1
	}
	asked := z.serial()
	if asked == 0 { // never used, as section 7.11 has it for our own steps
		asked = 1
	}
	if newer1982(asked, next) && newer1982(asked, serial) {
		next = asked
	}
	z.setSerial(next)
	return dns.RcodeSuccess
}

// prerequisites is section 3.2.5.
func (z *model) prerequisites(rrs []dns.RR) int {
	for _, rr := range rrs { // format first
		h := rr.Header()
		switch {
		case h.Ttl != 0:
			return dns.RcodeFormatError
		case !z.inZone(h.Name):
			return dns.RcodeNotZone
		case h.Class == dns.ClassANY || h.Class == dns.ClassNONE:
			if h.Rdlength != 0 {
				return dns.RcodeFormatError
			}
		case h.Class != dns.ClassINET:
			return dns.RcodeFormatError
		}
	}
	type key struct {
		name string
		typ  uint16
	}
	temp := map[key][]string{}
	for _, rr := range rrs {
		h := rr.Header()
		name := strings.ToLower(h.Name)
		switch h.Class {
		case dns.ClassANY:
			if h.Rrtype == dns.TypeANY {
				if len(z.rrset(name, any2136)) == 0 {
					return dns.RcodeNameError
				}
			} else if len(z.rrset(name, is(h.Rrtype))) == 0 {
				return dns.RcodeNXRrset
			}
		case dns.ClassNONE:
			if h.Rrtype == dns.TypeANY {
				if len(z.rrset(name, any2136)) != 0 {
					return dns.RcodeYXDomain
				}
			} else if len(z.rrset(name, is(h.Rrtype))) != 0 {
				return dns.RcodeYXRrset
			}
		default:
			k := key{name, h.Rrtype}
			temp[k] = append(temp[k], z.rr(rr).rdata)
		}
	}
	for k, want := range temp {
		var have []string
		for _, r := range z.rrset(k.name, is(k.typ)) {
			have = append(have, r.rdata)
		}
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, slices.Compact(want)) {
			return dns.RcodeNXRrset
		}
	}
	return dns.RcodeSuccess
}

// prescan is section 3.4.1.3.
func (z *model) prescan(rrs []dns.RR) int {
	for _, rr := range rrs {
		h := rr.Header()
		meta := slices.Contains(modelMeta, h.Rrtype)
		switch {
		case !z.inZone(h.Name):
			return dns.RcodeNotZone
		case h.Class == dns.ClassINET:
			if meta {
				return dns.RcodeFormatError
			}
		case h.Class == dns.ClassANY:
			if h.Ttl != 0 || h.Rdlength != 0 || meta && h.Rrtype != dns.TypeANY {
				return dns.RcodeFormatError
			}
		case h.Class == dns.ClassNONE:
			if h.Ttl != 0 || meta {
				return dns.RcodeFormatError
			}
		default:
			return dns.RcodeFormatError
		}
	}
	return dns.RcodeSuccess
}

// apply is section 3.4.2.7.
func (z *model) apply(rrs []dns.RR, serial uint32) {
next:
	for _, rr := range rrs {
		u := z.rr(rr)
		switch rr.Header().Class {
		case dns.ClassINET:
			if u.typ == dns.TypeCNAME {
				if len(z.rrset(u.name, not(dns.TypeCNAME))) > 0 { // DNAME is among these
					continue
				}
			} else if len(z.rrset(u.name, is(dns.TypeCNAME))) > 0 {
				continue
			}
			if u.typ == dns.TypeSOA {
				soa := z.rrset(u.name, is(dns.TypeSOA))
				// text over pseudo-code; and newer than what secondaries have
				if len(soa) == 0 || !newer1982(modelSerial(u), modelSerial(soa[0])) || !newer1982(modelSerial(u), serial) {
					continue
				}
			}
			for i := range z.rrs { // one TTL
				if z.rrs[i].name == u.name && z.rrs[i].typ == u.typ {
					z.rrs[i].ttl = u.ttl
				}
			}
			for i, r := range z.rrs {
				if r.name == u.name && r.typ == u.typ &&
					(u.typ == dns.TypeCNAME || u.typ == dns.TypeSOA || u.typ == dns.TypeDNAME || r.rdata == u.rdata) {
					z.rrs[i] = u
					continue next
				}
			}
			z.rrs = append(z.rrs, u)
		case dns.ClassANY:
			switch {
			case u.typ == dns.TypeANY && u.name == z.origin:
				z.drop(func(r modelRR) bool { return r.name == u.name && r.typ != dns.TypeSOA && r.typ != dns.TypeNS })
			case u.typ == dns.TypeANY:
				z.drop(func(r modelRR) bool { return r.name == u.name })
			case u.name == z.origin && (u.typ == dns.TypeSOA || u.typ == dns.TypeNS):
			default:
				z.drop(func(r modelRR) bool { return r.name == u.name && r.typ == u.typ })
			}
		case dns.ClassNONE:
			if u.typ == dns.TypeSOA {
				continue
			}
			// The text: "unless the NAME is the same as ZNAME".
			if ns := z.rrset(u.name, is(dns.TypeNS)); u.typ == dns.TypeNS && u.name == z.origin && len(ns) == 1 && ns[0].rdata == u.rdata {
				continue
			}
			z.drop(func(r modelRR) bool { return r.name == u.name && r.typ == u.typ && r.rdata == u.rdata })
		}
	}
}

// ixfr applies difference sequences as a secondary does: RFC 1995, section 4.
func (z *model) ixfr(rrs []dns.RR) error {
	if len(rrs) < 4 || rrs[0].String() != rrs[len(rrs)-1].String() {
		return fmt.Errorf("%d records that do not start and end with one SOA", len(rrs))
	}
	deleting := false
	for _, rr := range rrs[1 : len(rrs)-1] {
		r := z.rr(rr)
		if r.typ == dns.TypeSOA {
			deleting = !deleting
		}
		i := slices.Index(z.rrs, r)
		switch {
		case deleting && i < 0:
			return fmt.Errorf("deleting %v: it is not there", r)
		case deleting:
			z.rrs = slices.Delete(z.rrs, i, i+1)
		case i >= 0:
			return fmt.Errorf("adding %v: it is there", r)
		default:
			z.rrs = append(z.rrs, r)
		}
	}
	if deleting {
		return fmt.Errorf("the last difference sequence has no second SOA")
	}
	if soa := z.rr(rrs[0]); !slices.Contains(z.rrs, soa) {
		return fmt.Errorf("the zone does not end at %v", soa)
	}
	return nil
}

package zone

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/miekg/dns"
)

// ParseUpdate reads a DNS UPDATE message for the zone origin into an Update
// (RFC 2136, sections 3.1 to 3.4.1). m must have come from the wire: whether a
// record has rdata is told by its RDLENGTH alone.
//
// A returned *Error refuses the message before the zone is looked at: the zone
// section (3.1) or a prerequisite (3.2) is malformed, whatever the outcome of the
// prerequisites before it. A malformed update section is left in
// Update.Malformed, because prerequisites and permission are answered first.
func ParseUpdate(m *dns.Msg, origin Name) (Update, error) {
	var u Update
	if err := checkZoneSection(m, origin); err != nil {
		return u, err
	}
	prerequisites, err := parsePrerequisites(m.Answer, origin)
	if err != nil {
		return u, err
	}
	u.Prerequisites = prerequisites
	p := updateParser{origin: origin}
	for _, rr := range m.Ns {
		p.next(rr)
	}
	p.flush()
	u.Operations, u.Malformed = p.ops, p.malformed
	return u, nil
}

// checkZoneSection is RFC 2136, section 3.1.
func checkZoneSection(m *dns.Msg, origin Name) *Error {
	if m == nil || m.Opcode != dns.OpcodeUpdate || m.Response {
		return malformed("not a request to update")
	}
	if len(m.Question) != 1 || m.Question[0].Qtype != dns.TypeSOA {
		return malformed("the zone section of an update is one SOA")
	}
	name, err := ParseName(m.Question[0].Name)
	if err != nil {
		return malformed("zone of the update: %v", err)
	}
	if name != origin || m.Question[0].Qclass != dns.ClassINET {
		// Another zone of the server is not for this one to judge, and every zone
		// here is of class IN.
		return &Error{Rcode: dns.RcodeNotAuth, Code: CodeNotAuth, Text: fmt.Sprintf("not authoritative for %s %s", name, dns.Class(m.Question[0].Qclass))}
	}
	return nil
}

// parsePrerequisites is the part of RFC 2136, section 3.2 that needs no zone.
// Those that depend on values are gathered to RRsets and come last, as there.
func parsePrerequisites(rrs []dns.RR, origin Name) ([]Prerequisite, error) {
	type key struct {
		owner Name
		typ   uint16
	}
	var plain, byValue []Prerequisite
	var index map[key]int // of byValue and datas
	var datas [][]string
	for _, rr := range rrs {
		if rr == nil {
			return nil, malformed("a prerequisite without a record")
		}
		h := rr.Header()
		owner, err := ParseName(h.Name)
		switch {
		case err != nil:
			return nil, malformed("owner of a prerequisite: %v", err)
		case h.Ttl != 0: // before the zone check, as in 3.2.5
			return nil, malformed("a prerequisite on %s has a TTL", owner)
		case !owner.Within(origin):
			return nil, notZone(owner, origin)
		}
		q := Prerequisite{Owner: owner, Type: h.Rrtype}
		switch h.Class {
		case dns.ClassANY, dns.ClassNONE:
			if h.Rdlength != 0 {
				return nil, malformed("a prerequisite on %s of class %s has data", owner, dns.Class(h.Class))
			}
			absent := h.Class == dns.ClassNONE
			switch {
			case h.Rrtype == dns.TypeANY && absent:
				q.Kind = NameNotInUse
			case h.Rrtype == dns.TypeANY:
				q.Kind = NameInUse
			case absent:
				q.Kind = RRsetAbsent
			default:
				q.Kind = RRsetExists
			}
			plain = append(plain, q)
		case dns.ClassINET:
			if !IsData(h.Rrtype) {
				return nil, malformed("a prerequisite on %s is of type %s", owner, TypeString(h.Rrtype))
			}
			data, err := wireRdata(rr)
			if err != nil {
				return nil, malformed("a prerequisite on %s: %v", owner, err)
			}
			k := key{owner, h.Rrtype}
			i, ok := index[k]
			if !ok {
				if index == nil {
					index = make(map[key]int)
				}
				i = len(byValue)
				index[k] = i
				q.Kind = RRsetExistsValue
				byValue, datas = append(byValue, q), append(datas, nil)
			}
			datas[i] = append(datas[i], data)
		default:
			return nil, malformed("a prerequisite on %s is of class %s", owner, dns.Class(h.Class))
		}
	}
	for i := range byValue {
		q := &byValue[i]
		set, err := RRset{Owner: q.Owner, Type: q.Type}.WithData(datas[i])
		if err != nil {
			return nil, err
		}
		q.RRset = set
	}
	return append(plain, byValue...), nil
}

// updateParser gathers the update section. Adjacent records that differ in
// nothing but rdata become one operation, where their order does not matter.
type updateParser struct {
	origin    Name
	ops       []Operation
	datas     []string // rdata of the last operation, while it is open
	malformed *Error   // the first
}

// next is the prescan of RFC 2136, section 3.4.1.3, for one record. After an error
// it goes on, so that permission is asked for every well-formed operation.
func (p *updateParser) next(rr dns.RR) {
	fail := func(err *Error) {
		if p.malformed == nil {
			p.malformed = err
		}
	}
	if rr == nil {
		fail(malformed("an update without a record"))
		return
	}
	h := rr.Header()
	owner, err := ParseName(h.Name)
	if err != nil {
		fail(malformed("owner of an update: %v", err))
		return
	}
	if !owner.Within(p.origin) {
		fail(notZone(owner, p.origin))
		return
	}
	op := Operation{Owner: owner, Type: h.Rrtype}
	switch h.Class {
	case dns.ClassINET:
		op.Kind = AddRecords
	case dns.ClassNONE:
		op.Kind = DeleteRecords
	case dns.ClassANY:
		op.Kind = DeleteRRset
		if h.Rrtype == dns.TypeANY {
			op.Kind, op.Type = DeleteName, 0
		}
		if h.Rdlength != 0 {
			fail(malformed("deleting %s %s: there is data", owner, TypeString(h.Rrtype)))
			return
		}
	default:
		fail(malformed("an update of %s is of class %s", owner, dns.Class(h.Class)))
		return
	}
	if op.Kind != AddRecords && h.Ttl != 0 {
		fail(malformed("deleting %s %s: there is a TTL", owner, TypeString(h.Rrtype)))
		return
	}
	if op.Kind != DeleteName && !IsData(h.Rrtype) {
		fail(malformed("an update of %s is of type %s", owner, TypeString(h.Rrtype)))
		return
	}
	if op.Kind == DeleteRRset || op.Kind == DeleteName {
		p.flush()
		p.ops = append(p.ops, op)
		return
	}
	data, err := wireRdata(rr)
	if err == nil && data == "" && op.Kind == AddRecords && !mayBeEmpty(h.Rrtype) {
		err = errors.New("there is no data")
	}
	if err != nil {
		fail(malformed("an update of %s %s: %v", owner, TypeString(h.Rrtype), err))
		return
	}
	ttl := h.Ttl
	if op.Kind == DeleteRecords || ttl > 1<<31-1 {
		ttl = 0 // a TTL with the highest bit set counts as 0: RFC 2181, section 8
	}
	if !p.extends(&op, ttl) {
		p.flush()
		op.RRset = RRset{Owner: owner, Type: h.Rrtype, TTL: ttl}
		p.ops = append(p.ops, op)
	}
	p.datas = append(p.datas, data)
}

// extends reports whether op may become part of the open operation.
func (p *updateParser) extends(op *Operation, ttl uint32) bool {
	if len(p.datas) == 0 {
		return false
	}
	switch op.Type {
	case dns.TypeSOA, dns.TypeCNAME, dns.TypeDNAME, typeWKS, dns.TypeNS:
		return false // the last one added wins, or the last one deleted stays
	}
	last := &p.ops[len(p.ops)-1]
	return last.Kind == op.Kind && last.Owner == op.Owner && last.Type == op.Type && last.RRset.TTL == ttl
}

// flush closes the open operation.
func (p *updateParser) flush() {
	if len(p.datas) == 0 {
		return
	}
	last := &p.ops[len(p.ops)-1]
	set, err := last.RRset.WithData(p.datas)
	if err != nil && p.malformed == nil {
		p.malformed = limitError(err, last.RRset)
	}
	last.RRset, p.datas = set, p.datas[:0]
}

// mayBeEmpty tells the types whose rdata may be of no octets: NULL (RFC 1035,
// section 3.3.10), APL (RFC 3123, section 4) and whatever is unknown (RFC 3597).
func mayBeEmpty(typ uint16) bool {
	_, known := dns.TypeToRR[typ]
	return !known || typ == dns.TypeNULL || typ == dns.TypeAPL
}

// wireRdata is Rdata for a record that came off the wire. Package dns takes
// records that stop at the end of a field for whole, and gives the fields after
// it their zero values. Rdata finds the names that lack; numbers and texts that
// lack make the rdata longer than it was sent, which only names that were
// compressed do otherwise.
func wireRdata(rr dns.RR) (string, error) {
	h := rr.Header()
	if h.Rdlength == 0 {
		return "", nil
	}
	data, err := Rdata(rr)
	if err != nil {
		return "", err
	}
	if h.Rrtype == dns.TypeA || h.Rrtype == dns.TypeAAAA {
		return data, nil
	}
	if names, _ := domainNames(rr); !names && len(data) > int(h.Rdlength) {
		return "", errors.New("the data is truncated")
	}
	return data, nil
}

// domainNames reports whether the rdata of rr has domain names, which may have
// been compressed, and whether one of them is missing.
func domainNames(rr dns.RR) (some, missing bool) {
	v := reflect.Indirect(reflect.ValueOf(rr))
	for i := 1; i < v.NumField(); i++ { // 0 is the header
		f := v.Type().Field(i)
		if f.Type.Kind() == reflect.String && strings.HasSuffix(f.Tag.Get("dns"), "domain-name") {
			some = true
			missing = missing || v.Field(i).Len() == 0
		}
	}
	return some, missing
}

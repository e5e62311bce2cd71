package zone

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// operate is step 4 of a plan: the operations, in order. RFC 2136, section 3.4.2.
func (p *plan) operate() *Error {
	for i := range p.u.Operations {
		op := &p.u.Operations[i]
		d := p.at(op.Owner)
		switch op.Kind {
		case AddRecords:
			if err := p.add(d, op); err != nil {
				return err
			}
		case DeleteRRset: // 3.4.2.3
			// At the apex "neither SOA or NS RRs will be deleted".
			if !p.spared(op.Owner, op.Type) || p.u.Static {
				d.put(RRset{Type: op.Type})
			}
		case DeleteName: // 3.4.2.3
			d.sets = slices.DeleteFunc(d.sets, func(s RRset) bool { return !p.spared(op.Owner, s.Type) })
		case DeleteRecords:
			p.delete(d, op)
		}
	}
	return nil
}

// spared reports whether deleting by RRset or name passes over this one: SOA and
// NS of the apex.
func (p *plan) spared(owner Name, typ uint16) bool {
	return owner == p.origin && (typ == dns.TypeSOA || typ == dns.TypeNS)
}

// add is RFC 2136, section 3.4.2.2.
func (p *plan) add(d *draft, op *Operation) *Error {
	set := op.RRset
	set.Owner, set.Type = op.Owner, op.Type
	set.Static = p.u.Static && op.RRset.Static
	if set.Empty() {
		return nil
	}
	old := d.get(op.Type)
	if !p.u.Static {
		// A CNAME is not added beside other data, nor other data beside a CNAME. RFC
		// 6672, section 5.2 has DNAME follow the same rule.
		if op.Type == dns.TypeCNAME {
			if len(d.sets) > 1 || len(d.sets) == 1 && old.Empty() {
				return nil
			}
		} else if !d.get(dns.TypeCNAME).Empty() {
			return nil
		}
		// "SOA ... lower (according to [RFC1982]) than or equal": ignored; and it is
		// ignored at a name without SOA, unless the zone is only being made.
		if op.Type == dns.TypeSOA && (op.Owner != p.origin || !p.newer(soaSerial(set), old)) {
			return nil
		}
	}
	switch op.Type {
	case dns.TypeCNAME, dns.TypeSOA, dns.TypeDNAME: // one a name: the new one replaces
	case typeWKS:
		old = withoutServices(old, set)
		fallthrough
	default:
		// The RRset takes the TTL of what was added last, whether that was there
		// already ("replace") or not: RFC 2181, section 5.2 wants one TTL.
		set.data = unite(old.data, set.data)
		if len(set.data) > MaxRRsetData {
			_, err := set.WithData(slices.Collect(set.Data()))
			return limitError(err, set)
		}
	}
	d.put(set)
	return nil
}

// newer reports whether an SOA with this serial may replace the SOA that the
// update has arrived at. It must also be newer than the SOA that secondaries
// have, which two steps in one update could overtake the wrong way around.
func (p *plan) newer(s Serial, old RRset) bool {
	now := p.c.SOA()
	return now.Empty() || s.Newer(soaSerial(now)) && (old.Empty() || s.Newer(soaSerial(old)))
}

// delete is RFC 2136, section 3.4.2.4.
func (p *plan) delete(d *draft, op *Operation) {
	old := d.get(op.Type)
	if old.Empty() {
		return
	}
	if p.spared(op.Owner, op.Type) && !p.u.Static { // the only one remaining stays
		for rdata := range op.RRset.Data() {
			if one := record(rdata); len(old.data) > len(one) {
				old.data = subtract(old.data, one)
			}
		}
	} else {
		old.data = subtract(old.data, op.RRset.data)
	}
	d.put(old)
}

// static reports whether the operator's file holds the owner: a name is the
// file's or it is the updates', never both.
func (d *draft) static() bool {
	for set := range d.was.RRsets(d.owner) {
		return set.Static
	}
	return false
}

// get returns the RRset of a type; empty when there is none.
func (d *draft) get(typ uint16) RRset {
	for i := range d.sets {
		if d.sets[i].Type == typ {
			return d.sets[i]
		}
	}
	return RRset{}
}

// put replaces the RRset of set's type; an empty one removes it.
func (d *draft) put(set RRset) {
	i, found := slices.BinarySearchFunc(d.sets, set.Type, func(s RRset, t uint16) int { return int(s.Type) - int(t) })
	switch {
	case found && set.Empty():
		d.sets = slices.Delete(d.sets, i, i+1)
	case found:
		d.sets[i] = set
	case !set.Empty():
		d.sets = slices.Insert(d.sets, i, set)
	}
}

// unite merges two sorted lists of records as RRset.data holds them. It allocates
// only when b has records that a has not, and copies what lies between those as
// one piece: a message may add to a large RRset record by record.
func unite(a, b string) string {
	if a == "" {
		return b
	}
	var out strings.Builder
	copied, at := 0, 0 // of a
	for rest := b; rest != ""; {
		rb := rest[:2+be16(rest)]
		rest = rest[len(rb):]
		c := 1
		for at < len(a) {
			ra := a[at : at+2+be16(a[at:])]
			// The order is that of the rdata, without its length.
			if c = strings.Compare(ra[2:], rb[2:]); c >= 0 {
				break
			}
			at += len(ra)
		}
		if c == 0 {
			continue
		}
		if out.Len() == 0 {
			out.Grow(len(a) + len(rb) + len(rest))
		}
		out.WriteString(a[copied:at])
		out.WriteString(rb)
		copied = at
	}
	if out.Len() == 0 {
		return a
	}
	out.WriteString(a[copied:])
	return out.String()
}

// subtract takes the records of b off those of a. It allocates only when some go
// and some stay.
func subtract(a, b string) string {
	var out []byte
	all, kept, same := a, 0, true
	for a != "" {
		ra := a[:2+be16(a)]
		a = a[len(ra):]
		gone := false
		for b != "" {
			rb := b[:2+be16(b)]
			c := strings.Compare(rb[2:], ra[2:])
			if c > 0 {
				break
			}
			b = b[len(rb):]
			if c == 0 {
				gone = true
				break
			}
		}
		switch {
		case gone && same:
			// What came before stays, as one piece of the input.
			kept, same = len(all)-len(a)-len(ra), false
		case !gone && !same:
			if out == nil {
				out = append(make([]byte, 0, len(all)), all[:kept]...)
			}
			out = append(out, ra...)
		}
	}
	switch {
	case same:
		return all
	case out == nil:
		return all[:kept]
	}
	return string(out)
}

// record frames one rdata as RRset.data does.
func record(rdata string) string {
	return string([]byte{byte(len(rdata) >> 8), byte(len(rdata))}) + rdata
}

// typeWKS is not known to package dns.
const typeWKS = 11

// withoutServices takes those WKS records off old which a record of set replaces:
// only one is possible for an address and protocol. RFC 2136, section 1.1.5.
func withoutServices(old, set RRset) RRset {
	const key = 4 + 1 // address, protocol: RFC 1035, section 3.4.2
	gone := ""
	for o := range old.Data() {
		for s := range set.Data() {
			if len(o) >= key && len(s) >= key && o[:key] == s[:key] {
				gone = unite(gone, record(o))
				break
			}
		}
	}
	old.data = subtract(old.data, gone)
	return old
}

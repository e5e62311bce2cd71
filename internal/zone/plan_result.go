package zone

import (
	"errors"
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// verify is step 5 of a plan: what the operations arrived at must be a zone, and
// within its limits.
func (p *plan) verify() *Error {
	if p.c.SOA().Empty() {
		p.at(p.origin) // a new zone needs an apex, even when nothing touched it
	}
	names, records := 0, 0
	for i := range p.drafts {
		d := &p.drafts[i]
		if err := p.verifyOwner(d); err != nil {
			return err
		}
		if err := d.limit(p.u.Limits); err != nil {
			return err
		}
		n, r := d.growth()
		names += n
		records += r
	}
	l, have := p.u.Limits, p.c.Counts()
	if names > 0 && l.Names > 0 && have.Names+names > l.Names {
		return refused(CodeLimit, fmt.Sprintf("zone %s would have %d names, at most %d", p.origin, have.Names+names, l.Names))
	}
	if records > 0 && l.RecordsPerZone > 0 && have.Records+records > l.RecordsPerZone {
		return refused(CodeLimit, fmt.Sprintf("zone %s would have %d records, at most %d", p.origin, have.Records+records, l.RecordsPerZone))
	}
	return nil
}

// verifyOwner checks the invariants. RFC 2136 ignores the operations that would
// break one, so these fail for the operator's files and for errors in the program.
func (p *plan) verifyOwner(d *draft) *Error {
	broken := func(what string) *Error {
		return refused(CodeInvariant, fmt.Sprintf("%s %s", d.owner, what))
	}
	for i, set := range d.sets {
		switch {
		case set.Static != d.sets[0].Static:
			return broken("would have records of the operator's file and others")
		case set.Type == dns.TypeSOA && d.owner != p.origin:
			return broken("is not the apex and would have an SOA")
		case set.Type == dns.TypeSOA && !isSOA(set):
			return broken("would not have one whole SOA")
		case set.Type == dns.TypeCNAME && len(d.sets) > 1:
			return broken("would have a CNAME beside other data")
		case (set.Type == dns.TypeCNAME || set.Type == dns.TypeDNAME) && set.Len() > 1:
			return broken("would have more than one " + TypeString(set.Type))
		case i > 0 && set.Type <= d.sets[i-1].Type:
			return broken("would have RRsets out of order")
		}
	}
	if d.owner == p.origin {
		if d.get(dns.TypeSOA).Empty() {
			return broken("would have no SOA")
		}
		if d.get(dns.TypeNS).Empty() {
			return broken("would have no NS at the apex")
		}
	}
	return nil
}

// limit checks the limits of one owner.
func (d *draft) limit(l Limits) *Error {
	if l.RRsetsPerName > 0 && len(d.sets) > l.RRsetsPerName {
		before := 0
		for range d.was.RRsets(d.owner) {
			before++
		}
		if len(d.sets) > before {
			return refused(CodeLimit, fmt.Sprintf("%s would have %d RRsets, at most %d", d.owner, len(d.sets), l.RRsetsPerName))
		}
	}
	if l.RecordsPerSet > 0 {
		for _, set := range d.sets {
			n := set.Len()
			if n <= l.RecordsPerSet {
				continue
			}
			if before, _ := d.was.RRset(d.owner, set.Type); n > before.Len() {
				return refused(CodeLimit, fmt.Sprintf("%s %s would have %d records, at most %d", d.owner, TypeString(set.Type), n, l.RecordsPerSet))
			}
		}
	}
	return nil
}

// growth counts by how many names and records the zone grows.
func (d *draft) growth() (names, records int) {
	for set := range d.was.RRsets(d.owner) {
		records -= set.Len()
	}
	for i := range d.sets {
		records += d.sets[i].Len()
	}
	if d.was != "" {
		names--
	}
	if len(d.sets) > 0 {
		names++
	}
	return names, records
}

func limitError(err error, set RRset) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return refused(CodeLimit, fmt.Sprintf("%s %s would be too large", set.Owner, TypeString(set.Type)))
}

// changeset is the net difference, nil when there is none.
func (p *plan) changeset(now uint32) *Changeset {
	if len(p.drafts) > 1 {
		slices.SortFunc(p.drafts, func(a, b draft) int { return a.owner.Compare(b.owner) })
	}
	from := p.c.SOA()
	to := from
	var deleted, added []RRset
	if len(p.drafts) > len(p.few) {
		n := 0
		for i := range p.drafts {
			n += len(p.drafts[i].sets)
		}
		added = make([]RRset, 0, n)
	}
	for i := range p.drafts {
		d := &p.drafts[i]
		if d.owner == p.origin {
			to = d.get(dns.TypeSOA)
		}
		deleted, added = d.diff(deleted, added)
	}
	asked := soaSerial(to)
	if p.u.Static && !from.Empty() {
		// The serial in the operator's file says nothing about this zone's versions.
		asked = soaSerial(from)
		to = withSerial(to, asked)
	}
	if len(deleted) == 0 && len(added) == 0 && to == from {
		return nil
	}
	return &Changeset{
		From:    from,
		To:      withSerial(to, nextSerial(from, asked, now)),
		Deleted: deleted,
		Added:   added,
		Cause:   p.u.Cause,
	}
}

// nextSerial is the one step that a changeset takes, as Plan describes it.
func nextSerial(from RRset, asked Serial, now uint32) Serial {
	nonzero := func(s Serial) Serial { // RFC 2136, section 7.11
		return max(s, 1)
	}
	asked = nonzero(asked)
	if from.Empty() {
		if t := nonzero(Serial(now)); !asked.Newer(t) {
			return t
		}
		return asked
	}
	old := soaSerial(from)
	if next := old.Next(now); !asked.Newer(next) || !asked.Newer(old) {
		return next
	}
	return asked
}

// withSerial returns the SOA with another serial.
func withSerial(soa RRset, s Serial) RRset {
	if soaSerial(soa) == s || len(soa.data) < 2+22 {
		return soa
	}
	b := []byte(soa.data)
	at := len(b) - 20
	b[at], b[at+1], b[at+2], b[at+3] = byte(s>>24), byte(s>>16), byte(s>>8), byte(s)
	soa.data = string(b)
	return soa
}

// diff appends what leads from the owner's RRsets as they were to what they are,
// but for the SOA.
func (d *draft) diff(deleted, added []RRset) (del, add []RRset) {
	i, was := 0, d.was
	for was != "" || i < len(d.sets) {
		var old, now RRset
		rest := was
		if was != "" {
			old, rest, _ = was.cut(d.owner)
		}
		if i < len(d.sets) {
			now = d.sets[i]
		}
		switch { // pair them by type
		case now.Empty() || !old.Empty() && old.Type < now.Type:
			now = RRset{}
			was = rest
		case old.Empty() || old.Type > now.Type:
			old = RRset{}
			i++
		default:
			was = rest
			i++
		}
		if old == now || old.Type == dns.TypeSOA || now.Type == dns.TypeSOA {
			continue
		}
		if old.TTL == now.TTL && old.Static == now.Static && old.Type == now.Type {
			before := old.data
			old.data = subtract(before, now.data)
			now.data = subtract(now.data, before)
		}
		if !old.Empty() {
			deleted = append(deleted, old)
		}
		if !now.Empty() {
			added = append(added, now)
		}
	}
	return deleted, added
}

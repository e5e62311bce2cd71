package zone

import (
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// Plan works out what u does to the Candidate, and changes nothing. It returns
// the net difference as a changeset that Apply accepts next; nil when there is
// none. The error is a *Error: the request fails as a whole.
//
// The order is that of RFC 2136, section 3, but for permission, which comes first:
//
//  1. permission for every owner and type of the operations, and some grant on the
//     owner of every prerequisite: whoever has none on a name learns nothing about
//     it. (RFC 2136, section 3.3 has this third.)
//  2. prerequisites (3.2), in order
//  3. prescan (3.4.1): Update.Malformed, then names out of the zone, types that no
//     update may carry, and names that the operator's file holds
//  4. the operations in order (3.4.2)
//  5. the result: one SOA, an apex NS, CNAME alone, Limits
//
// The new serial is Serial.Next of the present one at the Unix time now: one step,
// however many records change. An SOA operation whose serial is newer than both
// the present and the next one gets just that serial; a smaller one gets the next.
// The first changeset of a zone takes the later of the SOA's own serial and now.
func (c *Candidate) Plan(u Update, now uint32) (*Changeset, error) {
	p := plan{c: c, u: &u, origin: c.Origin(), last: -1}
	p.drafts = p.few[:0]
	if err := p.permit(); err != nil {
		return nil, err
	}
	if err := p.require(); err != nil {
		return nil, err
	}
	if err := p.prescan(); err != nil {
		return nil, err
	}
	if err := p.operate(); err != nil {
		return nil, err
	}
	if err := p.verify(); err != nil {
		return nil, err
	}
	return p.changeset(now), nil
}

// plan is the state of one Plan.
type plan struct {
	c      *Candidate
	u      *Update
	origin Name
	drafts []draft
	few    [2]draft // backing of drafts: most updates touch one owner
	last   int      // index of the draft that was asked for last
	many   *crowd   // with more owners
}

// crowd is what a plan of many owners needs beside their drafts.
type crowd struct {
	places *places
	room   []RRset // for the sets of drafts
}

// draft is what the RRsets of one owner are and become.
type draft struct {
	owner Name
	was   Node
	sets  []RRset // ascending by type, none empty
}

// at returns the draft of an owner. It is valid until the next call.
func (p *plan) at(owner Name) *draft {
	if p.many != nil {
		at, added := p.many.places.of(owner)
		if added {
			const each, many = 2, 512
			if len(p.many.room) < each {
				p.many.room = make([]RRset, each*many)
			}
			p.begin(owner, p.many.room[:0:each])
			p.many.room = p.many.room[each:]
		}
		return &p.drafts[at]
	}
	if p.last >= 0 && p.drafts[p.last].owner == owner {
		return &p.drafts[p.last]
	}
	for i := range p.drafts {
		if p.drafts[i].owner == owner {
			p.last = i
			return &p.drafts[i]
		}
	}
	if len(p.drafts) < fewOwners {
		p.last = len(p.drafts)
		return p.begin(owner, nil)
	}
	// Whoever comes this far most often goes on with all operations, some of them of
	// one owner.
	expected := fewOwners + len(p.u.Operations)/2
	p.many = &crowd{places: newPlaces(expected)}
	p.drafts = slices.Grow(p.drafts, expected)
	for i := range p.drafts {
		p.many.places.of(p.drafts[i].owner)
	}
	return p.at(owner)
}

// begin appends the draft of an owner that has none yet.
func (p *plan) begin(owner Name, room []RRset) *draft {
	d := draft{owner: owner, was: p.c.Node(owner), sets: room}
	for set := range d.was.RRsets(owner) {
		d.sets = append(d.sets, set)
	}
	p.drafts = append(p.drafts, d)
	return &p.drafts[len(p.drafts)-1]
}

// permit is step 1.
func (p *plan) permit() *Error {
	may := p.u.Permission
	if may == nil {
		return nil
	}
	for i := range p.u.Prerequisites {
		if owner := p.u.Prerequisites[i].Owner; !may.Knows(owner) {
			return notPermitted(owner, "a prerequisite on")
		}
	}
	for i := range p.u.Operations {
		op := &p.u.Operations[i]
		if op.Kind != DeleteName {
			if !may.Permits(op.Owner, op.Type) {
				return notPermitted(op.Owner, TypeString(op.Type)+" of")
			}
			continue
		}
		if may.Permits(op.Owner, dns.TypeANY) {
			continue
		}
		if !may.Knows(op.Owner) {
			return notPermitted(op.Owner, "deleting")
		}
		// Without a grant of ANY, deleting a name is deleting each of its RRsets.
		// Those that this update adds first were, or will be, asked for as such.
		for set := range p.c.Node(op.Owner).RRsets(op.Owner) {
			if !p.spared(op.Owner, set.Type) && !may.Permits(op.Owner, set.Type) {
				return notPermitted(op.Owner, "deleting all of")
			}
		}
	}
	return nil
}

func notPermitted(owner Name, what string) *Error {
	return refused(CodeNotPermitted, fmt.Sprintf("%s %s is not permitted", what, owner))
}

// require is step 2: RFC 2136, section 3.2.
func (p *plan) require() *Error {
	for i := range p.u.Prerequisites {
		q := &p.u.Prerequisites[i]
		if !q.Owner.Within(p.origin) {
			return notZone(q.Owner, p.origin)
		}
		node := p.c.Node(q.Owner)
		set, exists := node.RRset(q.Owner, q.Type)
		rcode, text := dns.RcodeSuccess, ""
		switch q.Kind {
		case RRsetExists: // 2.4.1
			if !exists {
				rcode, text = dns.RcodeNXRrset, "does not exist"
			}
		case RRsetExistsValue: // 2.4.2; without a record there is no RRset to equal
			if !exists || !set.SameData(q.RRset) {
				rcode, text = dns.RcodeNXRrset, "is not as required"
			}
		case RRsetAbsent: // 2.4.3
			if exists {
				rcode, text = dns.RcodeYXRrset, "exists"
			}
		case NameInUse: // 2.4.4: at least one RR, so an empty non-terminal is not
			if node == "" {
				rcode, text = dns.RcodeNameError, "is not in use"
			}
		case NameNotInUse: // 2.4.5
			if node != "" {
				rcode, text = dns.RcodeYXDomain, "is in use"
			}
		default:
			rcode, text = dns.RcodeFormatError, fmt.Sprintf("has a prerequisite of unknown kind %d", q.Kind)
		}
		if rcode != dns.RcodeSuccess {
			what := q.Owner.String()
			if q.Kind < NameInUse {
				what += " " + TypeString(q.Type)
			}
			return &Error{Rcode: rcode, Code: CodePrerequisite, Text: "prerequisite: " + what + " " + text}
		}
	}
	return nil
}

func notZone(owner, origin Name) *Error {
	return &Error{Rcode: dns.RcodeNotZone, Code: CodeNotInZone, Text: fmt.Sprintf("%s is not in zone %s", owner, origin)}
}

func malformed(format string, args ...any) *Error {
	return &Error{Rcode: dns.RcodeFormatError, Code: CodeMalformed, Text: fmt.Sprintf(format, args...)}
}

// prescan is step 3: RFC 2136, section 3.4.1.
func (p *plan) prescan() *Error {
	if p.u.Malformed != nil {
		return p.u.Malformed
	}
	for i := range p.u.Operations {
		op := &p.u.Operations[i]
		switch {
		case !op.Owner.Within(p.origin):
			return notZone(op.Owner, p.origin)
		case op.Kind > DeleteRecords:
			return malformed("%s has an operation of unknown kind %d", op.Owner, op.Kind)
		case op.Kind != DeleteName && !IsData(op.Type):
			return malformed("%s is not a type of records", TypeString(op.Type))
		case op.Kind == AddRecords && op.Type == dns.TypeSOA && !isSOA(op.RRset):
			return malformed("%s SOA is not one whole SOA record", op.Owner)
		case p.u.Static:
		case op.Kind != DeleteName && p.serverMade(op.Owner, op.Type):
			return refused(CodeNotPermitted, fmt.Sprintf("%s %s is for the server to make, not for an update", op.Owner, TypeString(op.Type)))
		case p.at(op.Owner).static():
			return refused(CodeStatic, fmt.Sprintf("%s is the operator's own: 'file' or 'ns' has it, and no update may change it", op.Owner))
		}
	}
	return nil
}

// serverMade reports whether records of this type follow from others, so that one
// from a client could only be stale or false. CDS and CDNSKEY are not among them:
// they are statements to the parent, which a key manager may well publish by update.
func (p *plan) serverMade(owner Name, typ uint16) bool {
	switch typ {
	case dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeZONEMD:
		return true
	case dns.TypeDNSKEY:
		return owner == p.origin
	}
	return false
}

// isSOA reports whether set is one SOA record whose fixed fields can be read:
// two names and five fields of four octets. RFC 1035, section 3.3.13.
func isSOA(set RRset) bool {
	return len(set.data) >= 2+22 && len(set.data) == 2+be16(set.data)
}

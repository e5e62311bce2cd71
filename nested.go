package ddns

import (
	"fmt"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// A stanza may have a zone and another one below it. What is in the parent zone at
// or below the child's apex is never answered, but for the delegation: NS and DS
// at the apex, and the addresses of the servers it names (RFC 1034, section
// 4.2.1). What would be silently invisible is refused instead.

// nesting is how the zones of a stanza lie in one another; nil when none does.
type nesting struct {
	zones map[zone.Name]bool
	above map[zone.Name]bool // the names between a zone and one below it
}

func nestingOf(zones []zone.Name) *nesting {
	n := &nesting{zones: make(map[zone.Name]bool), above: make(map[zone.Name]bool)}
	for _, z := range zones {
		n.zones[z] = true
	}
	found := false
	for _, z := range zones {
		parent := z
		for parent != zone.Root {
			if parent = parent.Parent(); n.zones[parent] {
				found = true
				break
			}
		}
		if !n.zones[parent] {
			continue
		}
		for between := z.Parent(); between != parent; between = between.Parent() {
			n.above[between] = true
		}
	}
	if !found {
		return nil
	}
	return n
}

// zone is the closest zone that encloses a name of one of them.
func (n *nesting) zone(name zone.Name) zone.Name {
	for !n.zones[name] && name != zone.Root {
		name = name.Parent()
	}
	return name
}

// refuseForChild finds in an UPDATE for origin what belongs to a zone below it. As
// with names outside of the zone (RFC 2136, sections 3.2 and 3.4.1.3) a
// prerequisite is refused at once, and an operation when its turn has come.
func (i *instance) refuseForChild(origin zone.Name, u *zone.Update) error {
	if i.nesting == nil {
		return nil
	}
	for _, p := range u.Prerequisites {
		if child := i.nesting.zone(p.Owner); child != origin && child != p.Owner {
			return notOfParent(p.Owner, child)
		}
	}
	for _, op := range u.Operations {
		child := i.nesting.zone(op.Owner)
		if child == origin || child == op.Owner && (op.Kind == zone.DeleteName || delegates(op.Type)) {
			continue
		}
		if u.Malformed == nil {
			u.Malformed = notOfParent(op.Owner, child)
		}
		break
	}
	return nil
}

func notOfParent(owner, child zone.Name) *zone.Error {
	return &zone.Error{
		Rcode: dns.RcodeNotZone, Code: zone.CodeNotInZone,
		Text: fmt.Sprintf("%s belongs to zone %s, which is served here too", owner, child),
	}
}

// delegates reports whether a type is the parent's at the apex of a child.
func delegates(typ uint16) bool { return typ == dns.TypeNS || typ == dns.TypeDS }

// checkForChild refuses a zone file with records that a zone below it hides.
func (c *config) checkForChild(file string, origin zone.Name, sets []zone.RRset) error {
	n := nestingOf(c.zones)
	if n == nil {
		return nil
	}
	glued := make(map[zone.Name]bool)
	for _, s := range sets {
		if s.Type != dns.TypeNS {
			continue
		}
		for _, rr := range s.RRs() {
			if server, err := zone.ParseName(rr.(*dns.NS).Ns); err == nil {
				glued[server] = true
			}
		}
	}
	for _, s := range sets {
		child := n.zone(s.Owner)
		switch {
		case child == origin:
		case child == s.Owner && delegates(s.Type):
		case (s.Type == dns.TypeA || s.Type == dns.TypeAAAA) && glued[s.Owner]:
		default:
			return &reloadError{File: file, Text: fmt.Sprintf(
				"%s %s belongs to zone %s, which is served here too and would hide it: zone %s may have the delegation only, NS and DS and the addresses of its servers",
				s.Owner, zone.TypeString(s.Type), child, origin)}
		}
	}
	return nil
}

// zoneFor is the zone that answers a question: the closest that encloses the
// name. The DS RRset at a cut is the parent's (RFC 4035, section 3.1.4.1), if the
// parent knows of the cut.
func (i *instance) zoneFor(name zone.Name, qtype uint16) *zonedb.Zone {
	z := i.zoneOf(name)
	if qtype != dns.TypeDS || i.nesting == nil || z == nil || z.Origin() != name {
		return z
	}
	if parent := i.zoneOf(name.Parent()); parent != nil {
		if _, delegated := parent.Version().RRset(name, dns.TypeNS); delegated {
			return parent
		}
	}
	return z
}

// leaveToChild corrects what zone z said without knowing of the zones below it:
// a chain of aliases that leads into one of them ends there, to be gone on with in
// that zone, and a name above one exists.
func (i *instance) leaveToChild(a *zone.Answer, z *zonedb.Zone, name zone.Name, qtype uint16) {
	if i.nesting == nil {
		return
	}
	for k, rr := range a.Answer {
		alias, ok := rr.(*dns.CNAME)
		if !ok || zone.MatchesCNAME(qtype) { // asked for the alias itself
			continue
		}
		target, err := zone.ParseName(alias.Target)
		if err != nil || !target.Within(z.Origin()) || i.nesting.zone(target) == z.Origin() {
			continue
		}
		a.Rcode, a.Authoritative, a.Alias = dns.RcodeSuccess, true, target
		a.Answer, a.Authority, a.Additional = a.Answer[:k+1], nil, nil
		return
	}
	if a.Rcode == dns.RcodeNameError && len(a.Answer) == 0 && i.nesting.above[name] {
		a.Rcode = dns.RcodeSuccess // RFC 8020: else nothing would be below it
	}
}

package zone

import "github.com/miekg/dns"

type matchKind uint8

const (
	noName     matchKind = iota // the name does not exist: NXDOMAIN
	atName                      // its own node, empty for an empty non-terminal
	atWildcard                  // the node of the wildcard that covers it
	atCut                       // it is at or below the delegation at owner
	belowDNAME                  // it is below the DNAME at owner
)

// match is where the search for a name ends.
type match struct {
	kind  matchKind
	owner Name // of node
	node  Node
}

// match finds what answers for a name within the zone. RFC 1034, section 4.3.2,
// step 3, from the apex down: the topmost cut or DNAME on the way wins, whatever
// lies hidden below it; what ends at a missing label is the closest encloser's
// wildcard's to answer, and no other's (RFC 4592, section 4.4).
func (v *Version) match(name Name) match {
	if v.cuts+v.dnames == 0 { // nothing can be in the way
		if n, ok := v.find(name); ok {
			return match{atName, name, n}
		}
		if v.wildcards == 0 {
			return match{kind: noName}
		}
	}
	var labels [128]uint8
	count := name.offsets(&labels)
	i := count - v.origin.Labels() // of the first label of the name being looked at
	encloser := v.origin
	if i == 0 || v.dnames > 0 {
		n, _ := v.find(v.origin)
		if i == 0 {
			return match{atName, v.origin, n}
		}
		if hasType(n, dns.TypeDNAME) {
			return match{belowDNAME, v.origin, n}
		}
	}
	for i--; i >= 0; i-- {
		owner := name[labels[i]:]
		n, ok := v.find(owner)
		if !ok {
			return v.wildcard(encloser)
		}
		if v.cuts > 0 && hasType(n, dns.TypeNS) {
			return match{atCut, owner, n}
		}
		if i == 0 {
			return match{atName, owner, n}
		}
		if v.dnames > 0 && hasType(n, dns.TypeDNAME) {
			return match{belowDNAME, owner, n}
		}
		encloser = owner
	}
	panic("zone: match of a name that is not within the zone")
}

// wildcard finds the source of synthesis at the closest encloser. RFC 4592, section
// 3.3.1. NS or DNAME there are data like any other: their meaning at a wildcard is
// left open by sections 4.2 and 4.4, and covering names are no cuts.
func (v *Version) wildcard(encloser Name) match {
	if v.wildcards > 0 {
		if w, ok := encloser.Wildcard(); ok {
			if n, ok := v.find(w); ok {
				return match{atWildcard, w, n}
			}
		}
	}
	return match{kind: noName}
}

// hasType reports whether a node holds an RRset of a type.
func hasType(n Node, typ uint16) bool {
	for n != "" {
		set, rest, ok := n.cut("")
		if !ok || set.Type > typ {
			return false
		}
		if set.Type == typ {
			return true
		}
		n = rest
	}
	return false
}

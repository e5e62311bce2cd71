package zone

import "github.com/miekg/dns"

// maxTargets is for how many names addresses are added: more than fits beside
// them in any message a client waits for over UDP.
const maxTargets = 32

// additional appends the addresses in the zone of the names that set points to
// (RFC 1034, section 4.3.2, step 6; RFC 2782; RFC 9460, section 4.1), each name
// once. owner and name are who asked: the target "." of a service binding means
// its owner. Name servers get whatever the zone knows, glue included; the others
// only what it is authoritative for.
func (v *Version) additional(dst []dns.RR, set RRset, owner string, name Name) []dns.RR {
	skip := 0 // octets of rdata before the name
	switch set.Type {
	case dns.TypeNS:
	case dns.TypeMX:
		skip = 2 // preference
	case dns.TypeSVCB, dns.TypeHTTPS:
		skip = 2 // priority
	case dns.TypeSRV:
		skip = 6 // priority, weight, port
	default:
		return dst
	}
	var few [maxTargets]Name
	done := few[:0]
next:
	for d := range set.Data() {
		if len(d) <= skip {
			continue
		}
		target, ok := nameFromWire(d[skip:])
		if !ok {
			continue
		}
		text := ""
		if target == Root && (set.Type == dns.TypeSVCB || set.Type == dns.TypeHTTPS) && (d[0] != 0 || d[1] != 0) {
			target, text = name, owner
		}
		if !target.Within(v.origin) {
			continue
		}
		for _, n := range done {
			if n == target {
				continue next
			}
		}
		if len(done) == maxTargets {
			break
		}
		done = append(done, target)
		n := v.direct(target, set.Type == dns.TypeNS)
		for _, typ := range [...]uint16{dns.TypeA, dns.TypeAAAA} {
			addrs, ok := n.RRset(target, typ)
			if !ok {
				continue
			}
			if text == "" {
				text = target.String()
			}
			dst = addrs.AppendRRs(dst, text)
		}
	}
	return dst
}

// direct returns the node of a name itself; with glue also when it is hidden by a
// delegation or a DNAME.
func (v *Version) direct(name Name, glue bool) Node {
	if glue {
		return v.Node(name)
	}
	if m := v.match(name); m.kind == atName {
		return m.node
	}
	return ""
}

package zone_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"
)

// updates makes random UPDATE messages over few names, types and values, so that
// they keep meeting each other.
type updates struct {
	r *rand.Rand
	// serials are the SOA serials to ask for; none: no SOA is touched.
	serials func() uint32
	// odd makes some messages malformed.
	odd bool
	// peers leaves out DNAME, SOA below the apex and the like, which other servers treat
	// in ways of their own; see TestUpdatesAsOthers.
	peers bool
}

var (
	updateNames  = []string{"@", "www", "WWW", "b", "a.b", "*.w", "alias", "sub"}
	updateTypes  = []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeCNAME, dns.TypeMX, dns.TypeNS, dns.TypeDNAME}
	updateValues = map[uint16][]string{
		dns.TypeA:     {"192.0.2.1", "192.0.2.2", "192.0.2.3"},
		dns.TypeAAAA:  {"2001:db8::1", "2001:db8::2"},
		dns.TypeTXT:   {`"one"`, `"two" "three"`, `""`},
		dns.TypeCNAME: {"www", "WWW.Example.org.", "other.example.net."},
		dns.TypeMX:    {"10 www", "20 www", "10 mx.example.net."},
		dns.TypeNS:    {"ns1.example.net.", "ns2.example.net.", "NS2.example.net.", "ns3.example.net."},
		dns.TypeDNAME: {"example.net.", "example.com."},
	}
	updateTTLs = []uint32{60, 300, 3600}
)

const updateZone = `@ 3600 SOA ns1.example.net. host.example.net. 10 3600 600 86400 60
@ 3600 NS ns1.example.net.
@ 3600 NS ns2.example.net.
www 300 A 192.0.2.1
www 300 A 192.0.2.2
www 300 TXT "one"
alias 300 CNAME www
a.b 60 A 192.0.2.3
`

// text is one message in the syntax that readNsupdate reads.
func (g *updates) text() string {
	s := ""
	conditional := g.r.IntN(3) == 0
	if conditional {
		n := 1 + g.r.IntN(2)
		if g.peers {
			n = 1
		}
		for range n {
			s += g.prerequisite() + "\n"
		}
	}
	for range 1 + g.r.IntN(6) {
		s += g.operation() + "\n"
	}
	if g.odd && g.r.IntN(12) == 0 {
		switch {
		case !g.peers && g.r.IntN(2) == 0:
			s += pick(g.r, oddPrerequisites) + "\n"
		case !g.peers || !conditional:
			s += pick(g.r, oddOperations) + "\n"
		}
	}
	return s
}

var (
	oddPrerequisites = []string{
		"raw prereq www 1 ANY A", "raw prereq www 0 ANY A 192.0.2.1", "raw prereq www 0 CH A", "prereq yxdomain www.example.net.",
		"raw prereq www 0 NONE TXT x",
	}
	oddOperations = []string{
		"raw update www 1 ANY A", "raw update www 0 ANY A 192.0.2.1", "raw update www 1 ANY ANY", "raw update www 60 CH A 192.0.2.1",
		"raw update www 1 NONE A 192.0.2.1", "update add www.example.net. 60 A 192.0.2.1", "raw update www 0 ANY AXFR",
		"raw update www 0 NONE ANY", "raw update www 60 IN MAILB",
	}
)

func (g *updates) prerequisite() string {
	name, typ := pick(g.r, updateNames), g.typ()
	switch g.r.IntN(5) {
	case 0:
		return "prereq yxdomain " + name
	case 1:
		return "prereq nxdomain " + name
	case 2:
		return fmt.Sprintf("prereq yxrrset %s %s", name, dns.TypeToString[typ])
	case 3:
		return fmt.Sprintf("prereq nxrrset %s %s", name, dns.TypeToString[typ])
	}
	s, seen := "", ""
	for range 1 + g.r.IntN(2) {
		value := pick(g.r, updateValues[typ])
		if same := strings.TrimSuffix(strings.ToLower(value), ".example.org."); g.peers && same == seen {
			continue
		} else {
			seen = same
		}
		if s != "" {
			s += "\n"
		}
		s += fmt.Sprintf("prereq yxrrset %s %s %s", name, dns.TypeToString[typ], value)
	}
	return s
}

func (g *updates) operation() string {
	name, typ := pick(g.r, updateNames), g.typ()
	for g.peers && typ == dns.TypeNS && name == "*.w" {
		name = pick(g.r, updateNames)
	}
	if g.serials != nil && g.r.IntN(10) == 0 {
		data := fmt.Sprintf("%s host.example.net. %d %d 600 86400 60", pick(g.r, updateValues[dns.TypeNS]), g.serials(), 3600+g.r.IntN(3))
		switch g.r.IntN(5) {
		case 0:
			return "update delete @ SOA"
		case 1:
			return "update delete @ SOA " + data
		case 2:
			if g.peers {
				name = "@"
			}
			return fmt.Sprintf("update add %s %d SOA %s", name, pick(g.r, updateTTLs), data)
		}
		return fmt.Sprintf("update add @ %d SOA %s", pick(g.r, updateTTLs), data)
	}
	value := pick(g.r, updateValues[typ])
	switch g.r.IntN(10) {
	case 0:
		return "update delete " + name
	case 1, 2:
		return fmt.Sprintf("update delete %s %s", name, dns.TypeToString[typ])
	case 3, 4:
		return fmt.Sprintf("update delete %s %s %s", name, dns.TypeToString[typ], value)
	case 5:
		return "update delete @ NS " + pick(g.r, updateValues[dns.TypeNS])
	}
	return fmt.Sprintf("update add %s %d %s %s", name, pick(g.r, updateTTLs), dns.TypeToString[typ], value)
}

func (g *updates) typ() uint16 {
	for {
		if t := pick(g.r, updateTypes); t != dns.TypeDNAME || !g.peers {
			return t
		}
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

package zone_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// readNsupdate makes an UPDATE message of text in the syntax of nsupdate:
//
//	prereq nxdomain|yxdomain NAME
//	prereq nxrrset NAME TYPE
//	prereq yxrrset NAME TYPE [DATA]
//	update add NAME TTL TYPE DATA
//	update delete NAME [TYPE [DATA]]
//
// and, for what nsupdate would never send,
//
//	raw zone NAME CLASS TYPE
//	raw prereq|update NAME TTL CLASS TYPE [DATA | \# LENGTH HEX]
//
// Names may be relative to origin. The message goes over the wire once, as those
// of clients do.
func readNsupdate(t testing.TB, origin, text string) *dns.Msg {
	t.Helper()
	return overTheWire(t, packNsupdate(t, origin, text))
}

// packNsupdate is the message as it is sent. Package dns cannot pack again what it
// has unpacked: a record without data comes back with data of zeros.
func packNsupdate(t testing.TB, origin, text string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetUpdate(origin)
	m.Id = 1
	rawZone := false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], ";") {
			continue
		}
		if f[0] == "raw" && f[1] == "zone" {
			if !rawZone {
				m.Question, rawZone = nil, true
			}
			if f[2] == "none" {
				continue
			}
			m.Question = append(m.Question, dns.Question{Name: absolute(origin, f[2]), Qclass: class(t, f[3]), Qtype: rrtype(t, f[4])})
			continue
		}
		section, rr := readNsupdateLine(t, origin, f)
		if section == "prereq" {
			m.Answer = append(m.Answer, rr)
		} else {
			m.Ns = append(m.Ns, rr)
		}
	}
	return m
}

func readNsupdateLine(t testing.TB, origin string, f []string) (section string, rr dns.RR) {
	t.Helper()
	bad := func() {
		t.Helper()
		t.Fatalf("not in the syntax of nsupdate: %q", strings.Join(f, " "))
	}
	if len(f) < 3 {
		bad()
	}
	name := ""
	word := func(i int) string {
		if i >= len(f) {
			bad()
		}
		return f[i]
	}
	rest := func(i int) string { return strings.Join(f[min(i, len(f)):], " ") }
	switch f[0] {
	case "raw":
		name = absolute(origin, word(2))
		ttl, err := strconv.ParseUint(word(3), 10, 32)
		if err != nil {
			bad()
		}
		return f[1], makeUpdateRR(t, name, uint32(ttl), class(t, word(4)), rrtype(t, word(5)), rest(6))
	case "prereq":
		name = absolute(origin, word(2))
		switch f[1] {
		case "nxdomain":
			return f[0], makeUpdateRR(t, name, 0, dns.ClassNONE, dns.TypeANY, "")
		case "yxdomain":
			return f[0], makeUpdateRR(t, name, 0, dns.ClassANY, dns.TypeANY, "")
		case "nxrrset":
			return f[0], makeUpdateRR(t, name, 0, dns.ClassNONE, rrtype(t, word(3)), "")
		case "yxrrset":
			if len(f) == 4 {
				return f[0], makeUpdateRR(t, name, 0, dns.ClassANY, rrtype(t, f[3]), "")
			}
			return f[0], makeUpdateRR(t, name, 0, dns.ClassINET, rrtype(t, word(3)), rest(4))
		}
	case "update":
		name = absolute(origin, word(2))
		switch f[1] {
		case "add":
			ttl, err := strconv.ParseUint(word(3), 10, 32)
			if err != nil {
				bad()
			}
			return f[0], makeUpdateRR(t, name, uint32(ttl), dns.ClassINET, rrtype(t, word(4)), rest(5))
		case "delete":
			switch len(f) {
			case 3:
				return f[0], makeUpdateRR(t, name, 0, dns.ClassANY, dns.TypeANY, "")
			case 4:
				return f[0], makeUpdateRR(t, name, 0, dns.ClassANY, rrtype(t, f[3]), "")
			}
			return f[0], makeUpdateRR(t, name, 0, dns.ClassNONE, rrtype(t, f[3]), rest(4))
		}
	}
	bad()
	return "", nil
}

// makeUpdateRR makes a record of any class, with or without data. Data of the form
// \# LENGTH HEX is sent as it stands, even for types that package dns knows.
func makeUpdateRR(t testing.TB, name string, ttl uint32, class, typ uint16, data string) dns.RR {
	t.Helper()
	h := dns.RR_Header{Name: name, Rrtype: typ, Class: class, Ttl: ttl}
	if data == "" {
		return &dns.ANY{Hdr: h}
	}
	if hex, ok := strings.CutPrefix(data, `\# `); ok {
		_, hex, _ = strings.Cut(hex, " ")
		return &dns.RFC3597{Hdr: h, Rdata: hex}
	}
	rr, err := dns.NewRR(fmt.Sprintf("$ORIGIN %s\n%s %d IN %s %s", caseOrigin, name, ttl, zone.TypeString(typ), data))
	if err != nil {
		t.Fatalf("record %s %s %s: %v", name, zone.TypeString(typ), data, err)
	}
	rr.Header().Class = class
	return rr
}

func overTheWire(t testing.TB, m *dns.Msg) *dns.Msg {
	t.Helper()
	wire, err := m.Pack()
	if err != nil {
		t.Fatalf("packing: %v", err)
	}
	got := new(dns.Msg)
	if err := got.Unpack(wire); err != nil {
		t.Fatalf("unpacking: %v", err)
	}
	return got
}

func absolute(origin, name string) string {
	switch {
	case name == "@":
		return origin
	case strings.HasSuffix(name, "."):
		return name
	}
	return name + "." + origin
}

func class(t testing.TB, s string) uint16 {
	t.Helper()
	c, ok := dns.StringToClass[s]
	if !ok {
		t.Fatalf("no such class: %q", s)
	}
	return c
}

func rrtype(t testing.TB, s string) uint16 {
	t.Helper()
	typ, ok := zone.ParseType(s)
	if !ok {
		t.Fatalf("no such type: %q", s)
	}
	return typ
}

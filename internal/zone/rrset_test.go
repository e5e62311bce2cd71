package zone_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// samples holds records of every type that can be in a zone, in their canonical
// form: what Rdata reads, AppendRRs must write again.
var samples = map[uint16][]string{
	dns.TypeA:          {"192.0.2.1"},
	dns.TypeNS:         {"ns.example.org."},
	dns.TypeMD:         {"md.example.org."},
	dns.TypeMF:         {"mf.example.org."},
	dns.TypeCNAME:      {`a\.b.example.org.`},
	dns.TypeSOA:        {"ns.example.org. host.example.org. 1 2 3 4 5"},
	dns.TypeMB:         {"mb.example.org."},
	dns.TypeMG:         {"mg.example.org."},
	dns.TypeMR:         {"mr.example.org."},
	dns.TypeNULL:       {`\# 0`, `\# 3 010203`},
	dns.TypePTR:        {"."},
	dns.TypeHINFO:      {`"PC" "Linux"`},
	dns.TypeMINFO:      {"a.example.org. b.example.org."},
	dns.TypeMX:         {"10 mx.example.org.", "0 ."},
	dns.TypeTXT:        {`"a" "" "\"q\" \\ \200"`, `""`, `"` + strings.Repeat("x", 255) + `" "y"`},
	dns.TypeRP:         {"a.example.org. b.example.org."},
	dns.TypeAFSDB:      {"1 a.example.org."},
	dns.TypeX25:        {"311061700956"},
	dns.TypeISDN:       {`"150862028003217" "004"`, `"150862028003217" ""`},
	dns.TypeRT:         {"2 a.example.org."},
	dns.TypeNSAPPTR:    {"a.example.org."},
	dns.TypeSIG:        {"NS 8 2 300 20300101000000 20200101000000 1 example.org. AAAA"},
	dns.TypeKEY:        {"256 3 8 AQID"},
	dns.TypePX:         {"10 a.example.org. b.example.org."},
	dns.TypeGPOS:       {"-32.6882 116.8652 10.0"},
	dns.TypeAAAA:       {"2001:db8::1", "::ffff:192.0.2.1"},
	dns.TypeLOC:        {"42 21 54.000 N 71 06 18.000 W -24m 30m 10000m 10m"},
	dns.TypeNXT:        {"a.example.org. A NS"},
	dns.TypeEID:        {`\# 2 e32c`},
	dns.TypeNIMLOC:     {`\# 2 3250`},
	dns.TypeSRV:        {"1 2 3 a.example.org."},
	dns.TypeNAPTR:      {`100 10 "U" "E2U+sip" "!^.*$!sip:a@example.org!" .`},
	dns.TypeKX:         {"1 a.example.org."},
	dns.TypeCERT:       {"PKIX 1 RSASHA256 AQID"},
	dns.TypeDNAME:      {"a.example.org."},
	dns.TypeAPL:        {"", "1:192.0.2.0/24 !2:2001:db8::/32", "1:0.0.0.0/0"},
	dns.TypeDS:         {"1 8 2 " + strings.Repeat("0A", 32)},
	dns.TypeSSHFP:      {"1 1 0102"},
	dns.TypeIPSECKEY:   {"10 1 2 192.0.2.1 AQID", "10 3 2 a.example.org. AQID", "10 0 2 . AQID"},
	dns.TypeRRSIG:      {"A 8 2 300 20300101000000 20200101000000 1 example.org. AAAA"},
	dns.TypeNSEC:       {"a.example.org. A NS TYPE1234"},
	dns.TypeDNSKEY:     {"257 3 8 AQID"},
	dns.TypeDHCID:      {"AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="},
	dns.TypeNSEC3:      {"1 1 12 AABB 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR A RRSIG"},
	dns.TypeNSEC3PARAM: {"1 0 12 AABB", "1 0 0 -"},
	dns.TypeTLSA:       {"3 1 1 0102"},
	dns.TypeSMIMEA:     {"3 1 1 0102"},
	dns.TypeHIP:        {"2 200100107b1a74df365639cc39f1d578 AwEAAbdx rvs1.example.org. rvs2.example.org."},
	dns.TypeNINFO:      {`"a" "b"`},
	dns.TypeRKEY:       {"0 255 8 AQID"},
	dns.TypeTALINK:     {"a.example.org. b.example.org."},
	dns.TypeCDS:        {"0 0 0 00"},
	dns.TypeCDNSKEY:    {"0 3 0 AA=="},
	dns.TypeOPENPGPKEY: {"AQID"},
	dns.TypeCSYNC:      {"66 3 A NS AAAA"},
	dns.TypeZONEMD:     {"1 1 1 " + strings.Repeat("0a", 48)},
	dns.TypeSVCB:       {"0 a.example.org.", `1 . alpn="h2,h3" port="53" ipv4hint="192.0.2.1" key65333="x"`, `16 A.Example.org. mandatory="alpn" alpn="h2"`},
	dns.TypeHTTPS:      {`1 . alpn="h2" no-default-alpn="" ech="AQID" ipv6hint="2001:db8::1"`},
	dns.TypeSPF:        {`"v=spf1 -all"`},
	dns.TypeUINFO:      {`"a"`},
	dns.TypeUID:        {"7"},
	dns.TypeGID:        {"7"},
	dns.TypeNID:        {"10 0014:4fff:ff20:ee64"},
	dns.TypeL32:        {"10 192.0.2.1"},
	dns.TypeL64:        {"10 2001:0db8:1140:1000"},
	dns.TypeLP:         {"10 a.example.org."},
	dns.TypeEUI48:      {"00-00-5e-00-53-2a"},
	dns.TypeEUI64:      {"00-00-5e-ef-10-00-00-2a"},
	dns.TypeURI:        {`10 1 "https://example.org/"`},
	dns.TypeCAA:        {`0 issue "ca.example.net; policy=ev"`, `128 iodef ""`},
	dns.TypeAVC:        {`"a"`},
	dns.TypeAMTRELAY:   {"10 0 0 .", "10 1 0 .", "10 0 1 192.0.2.1", "10 0 3 a.example.org."},
	dns.TypeRESINFO:    {`"qnamemin" "exterr=15-17"`},
	dns.TypeTA:         {"1 8 2 0102"},
	dns.TypeDLV:        {"1 8 2 0102"},
	65280:              {`\# 0`, `\# 4 01020304`},
	1234:               {`\# 1 00`},
}

// record makes a record of its type and data in zone file syntax, be the type one
// that has no such syntax in package dns.
func record(t *testing.T, typ uint16, data string) dns.RR {
	t.Helper()
	h := dns.RR_Header{Name: "host.example.org.", Rrtype: typ, Class: dns.ClassINET, Ttl: 300}
	switch {
	case typ == dns.TypeAPL && data == "":
		return &dns.APL{Hdr: h}
	case typ == dns.TypeNULL:
		octets, err := hex.DecodeString(strings.Join(strings.Fields(data)[2:], ""))
		if err != nil {
			t.Fatal(err)
		}
		return &dns.NULL{Hdr: h, Data: string(octets)}
	case typ == dns.TypeEID:
		return &dns.EID{Hdr: h, Endpoint: strings.Fields(data)[2]}
	case typ == dns.TypeNIMLOC:
		return &dns.NIMLOC{Hdr: h, Locator: strings.Fields(data)[2]}
	case typ == dns.TypeNXT:
		return &dns.NXT{NSEC: dns.NSEC{Hdr: h, NextDomain: "a.example.org.", TypeBitMap: []uint16{dns.TypeA, dns.TypeNS}}}
	}
	rr, err := dns.NewRR(h.Name + " 300 IN " + zone.TypeString(typ) + " " + data)
	if err != nil || rr == nil {
		t.Fatalf("%s %s: %v", zone.TypeString(typ), data, err)
	}
	return rr
}

func TestEveryTypeRoundTrips(t *testing.T) {
	for typ := range dns.TypeToRR {
		if zone.IsData(typ) != (samples[typ] != nil) {
			t.Errorf("%s is data: %v, has a sample: %v", zone.TypeString(typ), zone.IsData(typ), samples[typ] != nil)
		}
	}
	for typ, datas := range samples {
		t.Run(zone.TypeString(typ), func(t *testing.T) {
			var rrs []dns.RR
			for _, data := range datas {
				rrs = append(rrs, record(t, typ, data))
			}
			s, err := zone.NewRRset(rrs...)
			if err != nil {
				t.Fatal(err)
			}
			if s.Len() != len(datas) {
				t.Fatalf("%d records of %d", s.Len(), len(datas))
			}
			var want, got []string
			for _, rr := range rrs {
				want = append(want, rr.String())
			}
			for _, rr := range s.AppendRRs(nil, "host.example.org.") {
				if rr.Header().Rrtype != typ || rr.Header().Ttl != 300 || rr.Header().Class != dns.ClassINET {
					t.Errorf("header %v", rr.Header())
				}
				got = append(got, rr.String())
				// As good for the wire as it was.
				d, err := zone.Rdata(rr)
				if err != nil || !s.Has(d) {
					t.Errorf("%s: rdata %x, %v", rr, d, err)
				}
				m := dns.Msg{Answer: []dns.RR{rr}}
				wire, err := m.Pack()
				if err != nil {
					t.Fatalf("%s: %v", rr, err)
				}
				if err := m.Unpack(wire); err != nil || m.Answer[0].String() != rr.String() {
					t.Errorf("%s by wire is %s, %v", rr, m.Answer, err)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			n := zone.NewNode(s)
			if again, err := zone.DecodeNode(s.Owner, []byte(n)); err != nil || again != n {
				t.Errorf("node %x is read as %x, %v", n, again, err)
			}
			if back, ok := n.RRset(s.Owner, typ); !ok || back != s {
				t.Errorf("node holds %v", back)
			}
		})
	}
}

// Package dns writes an AMTRELAY whose D bit is set (RFC 8777, section 4.2.2)
// without its relay.
func TestDiscoveryBitOfAMTRELAYKeepsItsRelay(t *testing.T) {
	for data, wire := range map[string]string{
		"10 1 1 192.0.2.1": "0a81c0000201",
		"10 1 3 a.org.":    "0a830161036f726700",
	} {
		s, err := zone.NewRRset(record(t, dns.TypeAMTRELAY, data))
		if err != nil {
			t.Fatal(err)
		}
		for d := range s.Data() {
			if got := hex.EncodeToString([]byte(d)); got != wire {
				t.Errorf("%s: got %s, want %s", data, got, wire)
			}
		}
		if _, err := zone.DecodeNode(s.Owner, []byte(zone.NewNode(s))); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 512)
		rr := s.AppendRRs(nil, ".")[0]
		end, err := dns.PackRR(rr, buf, 0, nil, false)
		if err != nil || hex.EncodeToString(buf[11:end]) != wire {
			t.Errorf("%s: packed %x, %v, want %s", data, buf[11:end], err, wire)
		}
	}
}

func TestRdata(t *testing.T) {
	tests := []struct{ name, record, want string }{
		{"names are lowered where RFC 4034 says so", "x. IN MX 1 MX.Example.", "000102" + "6d78" + "076578616d706c6500"},
		{"even when written by number", `x. IN NS \077\088.`, "026d7800"},
		{"and kept where it does not", "x. IN SVCB 0 Svc.", "0000" + "03537663" + "00"},
		{"octets above ASCII stay", `x. IN PTR \200\065.`, "02c86100"},
	}
	for _, tt := range tests {
		rr, err := dns.NewRR(tt.record)
		if err != nil {
			t.Fatal(err)
		}
		before := rr.String()
		d, err := zone.Rdata(rr)
		if err != nil || hex.EncodeToString([]byte(d)) != tt.want {
			t.Errorf("%s: got %x, %v, want %s", tt.name, d, err, tt.want)
		}
		if rr.String() != before {
			t.Errorf("%s: the record became %s", tt.name, rr)
		}
	}
	h := func(typ uint16) dns.RR_Header {
		return dns.RR_Header{Name: "x.", Rrtype: typ, Class: dns.ClassINET}
	}
	for name, rr := range map[string]dns.RR{
		"A without an address":             &dns.A{Hdr: h(dns.TypeA)},
		"A with an IPv6 address":           &dns.A{Hdr: h(dns.TypeA), A: make([]byte, 16)},
		"AAAA of four octets":              &dns.AAAA{Hdr: h(dns.TypeAAAA), AAAA: make([]byte, 4)},
		"A that says it is TXT":            &dns.A{Hdr: h(dns.TypeTXT), A: []byte{1, 2, 3, 4}},
		"MX without a name":                &dns.MX{Hdr: h(dns.TypeMX)},
		"CNAME without a name":             &dns.CNAME{Hdr: h(dns.TypeCNAME)},
		"a name that is too long":          &dns.NS{Hdr: h(dns.TypeNS), Ns: strings.Repeat("a.", 200)},
		"a label that is too long":         &dns.NS{Hdr: h(dns.TypeNS), Ns: strings.Repeat("a", 64) + "."},
		"A of unknown form and bad length": &dns.RFC3597{Hdr: h(dns.TypeA), Rdata: "0102"},
		"rdata over the limit":             &dns.NULL{Hdr: h(dns.TypeNULL), Data: strings.Repeat("x", 60001)},
	} {
		if d, err := zone.Rdata(rr); err == nil {
			t.Errorf("%s is taken as %x", name, d)
		}
	}
}

func TestNewRRset(t *testing.T) {
	s := set(t, "Host.example.org. 60 IN A 192.0.2.2", "hOST.example.org. 60 IN A 192.0.2.1", `\072ost.example.org. 60 IN A 192.0.2.2`)
	if s.Len() != 2 || s.Owner != zone.MustName("host.example.org") || s.RRs()[0].(*dns.A).A.String() != "192.0.2.1" {
		t.Errorf("got %v", s.RRs())
	}
	if other := set(t, "host.example.org. 60 IN A 192.0.2.1", "host.example.org. 60 IN A 192.0.2.2"); other != s {
		t.Error("the same records in another order make another RRset")
	}
	a, _ := dns.NewRR("a. IN A 192.0.2.1")
	b, _ := dns.NewRR("b. IN A 192.0.2.1")
	txt, _ := dns.NewRR("a. IN TXT x")
	for _, rrs := range [][]dns.RR{{}, {a, b}, {a, txt}} {
		if _, err := zone.NewRRset(rrs...); err == nil {
			t.Errorf("taken: %v", rrs)
		}
	}
	if _, err := s.WithData([]string{strings.Repeat("x", 30000), strings.Repeat("y", 30000)}); err == nil {
		t.Error("an RRset over the limit is taken")
	}
}

// What is handed out may be changed and appended to without anyone else seeing it.
func TestRRsAreFresh(t *testing.T) {
	for _, s := range []zone.RRset{
		set(t, "a. 60 IN A 192.0.2.1"), set(t, "a. 60 IN A 192.0.2.1", "a. 60 IN A 192.0.2.2"),
		set(t, "a. 60 IN AAAA 2001:db8::1"), set(t, "a. 60 IN AAAA 2001:db8::1", "a. 60 IN AAAA 2001:db8::2"),
		set(t, "a. 60 IN TXT x", "a. 60 IN TXT y"),
	} {
		first, second := s.RRs(), s.RRs()
		want := second[0].String()
		first[0].Header().Ttl = 1
		switch rr := first[0].(type) {
		case *dns.A:
			rr.A[0] = 9
			_ = append(rr.A, 9, 9, 9, 9)
		case *dns.AAAA:
			rr.AAAA[0] = 9
			_ = append(rr.AAAA, 9, 9, 9, 9)
		}
		_ = append(first, second...)
		if got := s.RRs(); got[0].String() != want || second[0].String() != want || cap(first) != len(first) {
			t.Errorf("got %v, want %s first", got, want)
		}
	}
}

func TestParseType(t *testing.T) {
	for text, want := range map[string]uint16{
		"A": 1, "aaaa": 28, "Any": 255, "TYPE65280": 65280, "type1": 1, "TYPE065": 65, "NSAP-PTR": 23, "TYPE65535": 65535,
		"": 0, "NONE": 0, "TYPE": 0, "TYPE0": 0, "TYPE65536": 0, "TYPE-1": 0, "TYPE+1": 0, "TYPE 1": 0, "TYPE1x": 0, "RESERVED": 0, "IN": 0,
	} {
		if got, ok := zone.ParseType(text); got != want || ok != (want != 0) {
			t.Errorf("%q: got %d, %v, want %d", text, got, ok, want)
		}
	}
	for typ := 1; typ <= 65535; typ++ {
		if got, ok := zone.ParseType(zone.TypeString(uint16(typ))); !ok || got != uint16(typ) {
			t.Errorf("%s is read as %d, %v", zone.TypeString(uint16(typ)), got, ok)
		}
	}
}

func FuzzParseType(f *testing.F) {
	for _, s := range []string{"A", "type65280", "TYPE0", "TYPE65536", "NSAP-PTR"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		typ, ok := zone.ParseType(s)
		if ok != (typ != 0) {
			t.Fatalf("%q: %d, %v", s, typ, ok)
		}
		if again, ok2 := zone.ParseType(zone.TypeString(typ)); ok && (!ok2 || again != typ) {
			t.Fatalf("%q: %d is written %s, read %d", s, typ, zone.TypeString(typ), again)
		}
	})
}

func TestDecodeNodeRefuses(t *testing.T) {
	owner := zone.MustName("a")
	good := string(zone.NewNode(set(t, "a. 60 IN A 192.0.2.1"), set(t, "a. 60 IN NS b.")))
	const a, ns = "\x00\x01\x00\x00\x00\x00\x3c\x06\x00\x04\xc0\x00\x02\x01", "\x00\x02\x00\x00\x00\x00\x3c\x05\x00\x03\x01b\x00"
	if good != a+ns {
		t.Fatalf("the format is %x", good)
	}
	for name, b := range map[string]string{
		"a header cut short":              a[:7],
		"data cut short":                  a[:len(a)-1],
		"octets too many":                 a + "\x00",
		"types out of order":              ns + a,
		"a type twice":                    a + a,
		"an RRset without records":        a[:7] + "\x00",
		"a flag that does not exist":      a[:2] + "\x02" + a[3:],
		"a length longer than it need be": a[:7] + "\x86\x00" + a[8:],
		"a length without end":            a[:7] + "\xff\xff\xff\xff\xff\xff",
		"a record cut short":              a[:7] + "\x01\x00",
		"a record twice":                  a[:7] + "\x0c" + a[8:] + a[8:],
		"an address of five octets":       a[:7] + "\x07\x00\x05\xc0\x00\x02\x01\x01",
		"an address of none":              a[:7] + "\x02\x00\x00",
		"a name in capitals":              ns[:11] + "B\x00",
		"a compressed name":               ns[:7] + "\x04\x00\x02\xc0\x00",
		"rdata longer than its record":    ns[:7] + "\x06\x00\x04\x01b\x00\x00",
		"MX without its name":             "\x00\x0f\x00\x00\x00\x00\x3c\x04\x00\x02\x00\x01",
		"type 0":                          "\x00\x00" + a[2:],
		"OPT":                             "\x00\x29" + a[2:],
		"ANY":                             "\x00\xff" + a[2:],
	} {
		if n, err := zone.DecodeNode(owner, []byte(b)); err == nil {
			t.Errorf("%s is taken as %x", name, string(n))
		}
	}
	if n, err := zone.DecodeNode(owner, nil); err != nil || n != "" {
		t.Errorf("the empty node is %q, %v", n, err)
	}
}

func FuzzDecodeNode(f *testing.F) {
	for _, s := range []zone.RRset{set(f, "a. 60 IN A 192.0.2.1", "a. 60 IN A 192.0.2.2"), set(f, "a. 60 IN MX 1 b."), set(f, "a. 60 IN SVCB 1 . alpn=h2"), set(f, "a. 60 IN TYPE65280 \\# 2 0102")} {
		f.Add([]byte(zone.NewNode(s)))
	}
	owner := zone.MustName("a.example.org")
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := zone.DecodeNode(owner, b)
		if err != nil {
			return
		}
		var sets []zone.RRset
		for s := range n.RRsets(owner) {
			for _, rr := range s.RRs() {
				d, err := zone.Rdata(rr)
				if err != nil || !s.Has(d) {
					t.Fatalf("%s: rdata %x, %v", rr, d, err)
				}
				wire := make([]byte, dns.Len(rr)+512)
				if _, err := dns.PackRR(rr, wire, 0, nil, false); err != nil {
					t.Fatalf("%s: %v", rr, err)
				}
			}
			sets = append(sets, s)
		}
		slices.Reverse(sets)
		if again := zone.NewNode(sets...); again != n || string(n) != string(b) {
			t.Fatalf("read %x, written %x", b, string(again))
		}
	})
}

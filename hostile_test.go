package ddns_test

import (
	"crypto"
	"crypto/ecdsa"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func record(t testing.TB, text string) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rr
}

// TestNonsenseChangesNothing signs, with a key that may do everything, messages
// that mean nothing.
func TestNonsenseChangesNothing(t *testing.T) {
	s := start(t, signedOptions())
	good := "a.dyn.example.org. 60 A 192.0.2.1"
	edit := func(f func(m *dns.Msg)) func() *dns.Msg {
		return func() *dns.Msg {
			m := adding(t, good)
			f(m)
			return m
		}
	}
	tests := map[string]struct {
		message func() *dns.Msg
		want    string // rcodes
	}{
		"zone section of class CHAOS": {edit(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), "REFUSED"},
		"zone section of class ANY":   {edit(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }), "REFUSED"},
		"zone section of class NONE":  {edit(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassNONE }), "REFUSED"},
		"zone section of type ANY":    {edit(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY }), "FORMERR"},
		"zone section of type AXFR":   {edit(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }), "FORMERR REFUSED"},
		"zone section of type TSIG":   {edit(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeTSIG }), "FORMERR"},
		"zone that is below ours":     {edit(func(m *dns.Msg) { m.Question[0].Name = "sub.dyn.example.org." }), "NOTAUTH"},
		"two zones":                   {edit(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), "FORMERR"},
		"a TSIG as prerequisite":      {edit(func(m *dns.Msg) { m.Answer = append(m.Answer, tsigRecord("a.dyn.example.org.", time.Now(), 300)) }), "FORMERR"},
		"a TSIG as update":            {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, tsigRecord("a.dyn.example.org.", time.Now(), 300)) }), "FORMERR"},
		"an OPT as update":            {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, opt()) }), "NOTZONE"},
		"an OPT as prerequisite":      {edit(func(m *dns.Msg) { m.Answer = append(m.Answer, opt()) }), "NOTZONE"},
		"a TKEY as update":            {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, tkey()) }), "FORMERR"},
		"a TKEY as prerequisite":      {edit(func(m *dns.Msg) { m.Answer = append(m.Answer, tkey()) }), "FORMERR"},
		"a SIG as prerequisite":       {edit(func(m *dns.Msg) { m.Answer = append(m.Answer, sig0(t)) }), "NOTZONE"},
		"a SIG as update":             {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, sig0(t)) }), "NOTZONE"},
		"an update outside the zone":  {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, record(t, "a.example.net. 60 A 192.0.2.1")) }), "NOTZONE"},
		"a signature that we make": {edit(func(m *dns.Msg) {
			m.Ns = append(m.Ns, record(t, "a.dyn.example.org. 60 RRSIG A 13 4 60 20300101000000 20200101000000 1 dyn.example.org. AAAA"))
		}), "REFUSED"},
		"a denial that we make": {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, record(t, "a.dyn.example.org. 60 NSEC b.dyn.example.org. A")) }), "REFUSED"},
		"a DNSKEY at the apex":  {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, record(t, "dyn.example.org. 60 DNSKEY 257 3 13 AAAA")) }), "REFUSED"},
		"a ZONEMD at the apex": {edit(func(m *dns.Msg) {
			m.Ns = append(m.Ns, record(t, "dyn.example.org. 60 ZONEMD 1 1 1 "+strings.Repeat("00", 48)))
		}), "REFUSED"},
		"an NSEC3PARAM":          {edit(func(m *dns.Msg) { m.Ns = append(m.Ns, record(t, "dyn.example.org. 60 NSEC3PARAM 1 0 0 -")) }), "REFUSED"},
		"class CHAOS in updates": {edit(func(m *dns.Msg) { m.Ns[0].Header().Class = dns.ClassCHAOS }), "FORMERR"},
		"class 0 in updates":     {edit(func(m *dns.Msg) { m.Ns[0].Header().Class = 0 }), "FORMERR"},
		"class 65535 in updates": {edit(func(m *dns.Msg) { m.Ns[0].Header().Class = 65535 }), "FORMERR"},
		"class CHAOS in prerequisites": {edit(func(m *dns.Msg) {
			m.Answer = []dns.RR{record(t, "a.dyn.example.org. 0 CH TXT x")}
		}), "FORMERR"},
		"a response": {edit(func(m *dns.Msg) { m.Response = true }), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := s.serial()
			wire := packed(t, test.message(), tsigRecord(testKey, time.Now(), 300), testSecret)
			if r := s.sentOrDropped(wire); r == nil && test.want != "" {
				t.Errorf("not answered")
			} else if r != nil && !strings.Contains(test.want, dns.RcodeToString[r.Rcode]) {
				t.Errorf("got %s, want %s", dns.RcodeToString[r.Rcode], test.want)
			}
			if s.serial() != before {
				t.Error("the zone changed")
			}
		})
	}
}

// sentOrDropped is the reply to a message over TCP, nil when what follows it on the
// connection is answered first.
func (s *server) sentOrDropped(wire []byte) *dns.Msg {
	s.t.Helper()
	conn := s.dial("tcp")
	if _, err := (&dns.Conn{Conn: conn}).Write(wire); err != nil {
		s.t.Fatal(err)
	}
	q := new(dns.Msg)
	q.SetQuestion("dyn.example.org.", dns.TypeSOA)
	r := sent(s.t, conn, packed(s.t, q, nil, ""))
	if r.Id == q.Id && r.Opcode == dns.OpcodeQuery {
		return nil
	}
	return r
}

func opt() dns.RR {
	o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	o.SetUDPSize(1232)
	return o
}

func tkey() dns.RR {
	return &dns.TKEY{
		Hdr:       dns.RR_Header{Name: "a.dyn.example.org.", Rrtype: dns.TypeTKEY, Class: dns.ClassINET},
		Algorithm: "gss-tsig.", Inception: 1, Expiration: 2, Mode: 3, KeySize: 1, Key: "00",
	}
}

func sig0(t testing.TB) dns.RR {
	s := new(dns.SIG)
	s.Hdr = dns.RR_Header{Name: ".", Rrtype: dns.TypeSIG, Class: dns.ClassANY}
	s.SignerName, s.Algorithm, s.Signature = "a.dyn.example.org.", dns.ECDSAP256SHA256, "AAAA"
	return s
}

// TestOtherCredentials sends what is no TSIG at the end of the message.
func TestOtherCredentials(t *testing.T) {
	s := start(t, signedOptions())
	key := &dns.KEY{DNSKEY: dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: "a.dyn.example.org.", Rrtype: dns.TypeKEY, Class: dns.ClassINET},
		Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}}
	private, err := key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	signed := func() []byte { // RFC 2931
		now := uint32(time.Now().Unix())
		rr := new(dns.SIG)
		rr.Hdr = dns.RR_Header{Name: ".", Rrtype: dns.TypeSIG, Class: dns.ClassANY}
		rr.Algorithm, rr.KeyTag, rr.SignerName = key.Algorithm, key.KeyTag(), key.Hdr.Name
		rr.Inception, rr.Expiration = now-300, now+300
		wire, err := rr.Sign(crypto.Signer(private.(*ecdsa.PrivateKey)), adding(t, "a.dyn.example.org. 60 A 192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
	twice := func() []byte {
		m := adding(t, "a.dyn.example.org. 60 A 192.0.2.1")
		m.Extra = append(m.Extra, tsigRecord(testKey, time.Now(), 300))
		return packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret)
	}
	appended := func(rr dns.RR) func() []byte {
		return func() []byte {
			wire := packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret)
			end := make([]byte, dns.Len(rr)+1)
			n, err := dns.PackRR(rr, end, 0, nil, false)
			if err != nil {
				t.Fatal(err)
			}
			binary.BigEndian.PutUint16(wire[10:], binary.BigEndian.Uint16(wire[10:])+1)
			return append(wire, end[:n]...)
		}
	}
	tkeyQuery := func() []byte {
		m := new(dns.Msg)
		m.SetQuestion("a.dyn.example.org.", dns.TypeTKEY)
		m.Extra = append(m.Extra, tkey())
		return packed(t, m, nil, "")
	}
	for name, message := range map[string]func() []byte{
		"unsigned":                 func() []byte { return packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), nil, "") },
		"SIG(0)":                   signed,
		"two TSIGs":                twice,
		"TSIG not last: an A":      appended(record(t, "x.dyn.example.org. 60 A 192.0.2.1")),
		"TSIG not last: an OPT":    appended(opt()),
		"TSIG not last: a TKEY":    appended(tkey()),
		"TSIG not last: a SIG":     appended(sig0(t)),
		"a TKEY query (GSS-TSIG)":  tkeyQuery,
		"a TSIG of no MAC":         func() []byte { return withMAC(t, "") },
		"a TSIG of one octet":      func() []byte { return withMAC(t, "00") },
		"a TSIG of 65 octets":      func() []byte { return withMAC(t, strings.Repeat("00", 65)) },
		"a truncated valid MAC":    func() []byte { return truncatedMAC(t, 16) },
		"a MAC truncated to none":  func() []byte { return truncatedMAC(t, 0) },
		"TSIG of class IN":         func() []byte { return classTSIG(t, dns.ClassINET) },
		"HMAC-MD5":                 func() []byte { return algorithmTSIG(t, dns.HmacMD5) },
		"an algorithm of our own":  func() []byte { return algorithmTSIG(t, "none.") },
		"GSS-TSIG as an algorithm": func() []byte { return algorithmTSIG(t, "gss-tsig.") },
	} {
		t.Run(name, func(t *testing.T) {
			before := s.serial()
			r := s.sentOrDropped(message())
			if r == nil { // CoreDNS cannot sign a reply to a MAC that short
				if name != "a TSIG of one octet" {
					t.Error("not answered")
				}
				return
			}
			switch r.Rcode {
			case dns.RcodeRefused, dns.RcodeNotAuth, dns.RcodeFormatError, dns.RcodeNotImplemented:
			default:
				t.Errorf("got %v", r)
			}
			if s.serial() != before {
				t.Error("the zone changed")
			}
		})
	}
}

// withMAC is an UPDATE with a TSIG record of a given MAC.
func withMAC(t testing.TB, mac string) []byte {
	m := adding(t, "a.dyn.example.org. 60 A 192.0.2.1")
	rr := tsigRecord(testKey, time.Now(), 300)
	rr.OrigId, rr.MAC, rr.MACSize = m.Id, mac, uint16(len(mac)/2)
	m.Extra = append(m.Extra, rr)
	return packed(t, m, nil, "")
}

// truncatedMAC keeps the first octets of a right MAC (RFC 8945, section 5.2.2.1).
func truncatedMAC(t testing.TB, octets int) []byte {
	m := adding(t, "a.dyn.example.org. 60 A 192.0.2.1")
	wire := packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret)
	full := new(dns.Msg)
	if err := full.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	rr := full.IsTsig()
	rr.MAC, rr.MACSize = rr.MAC[:2*octets], uint16(octets)
	return packed(t, full, nil, "")
}

func classTSIG(t testing.TB, class uint16) []byte {
	rr := tsigRecord("nobody.", time.Now(), 300)
	rr.Hdr.Class = class
	return packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), rr, testSecret)
}

func algorithmTSIG(t testing.TB, algorithm string) []byte {
	m := adding(t, "a.dyn.example.org. 60 A 192.0.2.1")
	rr := tsigRecord(testKey, time.Now(), 300)
	rr.OrigId, rr.Algorithm, rr.MAC, rr.MACSize = m.Id, algorithm, strings.Repeat("00", 16), 16
	m.Extra = append(m.Extra, rr)
	return packed(t, m, nil, "")
}

// TestCutOffUpdateNeverActs sends a signed UPDATE of more than 512 octets over
// UDP, of which CoreDNS reads the first 512. Wherever the cut falls, between two
// records included, nothing of it happens.
func TestCutOffUpdateNeverActs(t *testing.T) {
	s := start(t, signedOptions())
	before := s.serial()
	betweenRecords := false
	for pad := range 40 {
		m := new(dns.Msg)
		m.SetUpdate("dyn.example.org.")
		for i := range 40 {
			m.Insert([]dns.RR{record(t, fmt.Sprintf("h%02d.dyn.example.org. 60 TXT %q", i, strings.Repeat("x", 1+pad/(i+1))))})
		}
		wire := packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret)
		if len(wire) <= 512 {
			t.Fatalf("the message has %d octets", len(wire))
		}
		r := sent(t, s.dial("udp"), wire)
		switch r.Rcode {
		case dns.RcodeRefused: // a whole prefix, which had no signature
			betweenRecords = true
		case dns.RcodeFormatError:
		default:
			t.Errorf("padding %d: got %v", pad, r)
		}
		if s.serial() != before {
			t.Fatal("the zone changed")
		}
	}
	if !betweenRecords {
		t.Error("no cut fell between two records: the test proves nothing")
	}
}

// TestLargestMessage fills 64 KiB of TCP with signed updates and prerequisites.
func TestLargestMessage(t *testing.T) {
	s := start(t, signedOptions())
	m := new(dns.Msg)
	m.SetUpdate("dyn.example.org.")
	m.Compress = true
	for i := 0; m.Len() < 65535-300; i++ {
		m.Insert([]dns.RR{record(t, fmt.Sprintf("h%d.dyn.example.org. 60 TXT %q", i, strings.Repeat("x", 200)))})
	}
	wire := packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret)
	if r := sent(t, s.dial("tcp"), wire); r.Rcode != dns.RcodeSuccess {
		t.Fatalf("%d octets: got %v", len(wire), r)
	}
	last := m.Ns[len(m.Ns)-1].Header().Name
	if r := s.ask(last, dns.TypeTXT); len(r.Answer) != 1 {
		t.Errorf("asking for %s: got %v", last, r)
	}

	// A name that unpacks to far more than it took: each record repeats it by a
	// pointer. The work stays in proportion to the message.
	long := strings.Repeat("a.", 110) + "dyn.example.org."
	m = new(dns.Msg)
	m.SetUpdate("dyn.example.org.")
	m.Compress = true
	for i := 0; i < 3500; i++ {
		m.Insert([]dns.RR{record(t, fmt.Sprintf("%s 60 A 10.0.%d.%d", long, i/256, i%256))})
	}
	before, began := s.serial(), time.Now()
	r := sent(t, s.dial("tcp"), packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret))
	if r.Rcode != dns.RcodeRefused || s.serial() != before { // more records than one set may have
		t.Errorf("got %v", r)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// tsigLength is how many octets a message has from the type of its TSIG record on.
func tsigLength(t *testing.T, wire []byte) int {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	rr := m.IsTsig()
	return dns.Len(rr) - len(zone.MustName(rr.Hdr.Name))
}

// TestAnyBytesAreAnsweredOrDropped sends what no client sends, and asks afterwards
// whether somebody is still at home.
func TestAnyBytesAreAnsweredOrDropped(t *testing.T) {
	s := start(t, signedOptions())
	before := s.serial()
	base := packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret)
	// The class of the TSIG record is in no MAC as it was sent. RFC 8945, section 4.2.
	class := len(base) - tsigLength(t, base) + 2
	for _, b := range []byte{1, 0xff} {
		wire := append([]byte{}, base...)
		wire[class] = b
		if r := sent(t, s.dial("tcp"), wire); r.Rcode != dns.RcodeFormatError {
			t.Errorf("TSIG of another class: got %s, want FORMERR", dns.RcodeToString[r.Rcode])
		}
	}
	conn, err := net.Dial("udp", s.dns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := 2; i < len(base); i++ { // the id in front is not signed
		for _, b := range []byte{0, 0x3f, 0xc0, 0xff, base[i] ^ 1} {
			if b == base[i] {
				continue
			}
			wire := append([]byte{}, base...)
			wire[i] = b
			wire[0], wire[1] = byte(i), b // so that none is a copy of another
			if _, err := conn.Write(wire); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Write(base[:i]); err != nil {
			t.Fatal(err)
		}
	}
	// Over TCP: of so many datagrams some are dropped.
	r, err := s.exchange("tcp", "dyn.example.org", dns.TypeSOA)
	if err != nil || len(r.Answer) != 1 || r.Answer[0].(*dns.SOA).Serial != before {
		t.Errorf("afterwards: got %v, %v; want serial %d", r, err, before)
	}
}

package ddns_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestAnswersFitTheirDatagram: TC is for what was asked for and does not fit, not for
// addresses that come with it (RFC 2181, section 9); also when the answer is signed,
// which the host never cuts.
func TestAnswersFitTheirDatagram(t *testing.T) {
	var zone strings.Builder
	zone.WriteString("$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 127.0.0.1\n")
	for i := range 20 {
		fmt.Fprintf(&zone, "mail MX %d m%d\nm%d A 192.0.2.%d\nm%d AAAA 2001:db8::%d\nlong TXT %s%d\n", i, i, i, i, i, i, strings.Repeat("x", 100), i)
	}
	o := signedOptions()
	s := &server{t: t, dir: t.TempDir()}
	s.write("zone", zone.String())
	o.dir, o.stanza = s.dir, "file zone"
	s = start(t, o)
	for _, test := range []struct {
		name      string
		size      uint16 // of EDNS, 0 for none
		signed    bool
		truncated bool
		answers   int // -1: whatever fits
	}{
		{"mail", 0, false, false, 20},
		{"mail", 1232, false, false, 20},
		{"mail", 0, true, true, -1}, // the signature takes the room of some
		{"mail", 1232, true, false, 20},
		{"long", 1232, false, true, -1},
		{"long", 1232, true, true, -1},
		{"long", 0, true, true, -1},
		{"long", 4096, true, false, 20},
	} {
		m := new(dns.Msg).SetQuestion(test.name+".dyn.example.org.", dns.TypeMX)
		if test.name == "long" {
			m.Question[0].Qtype = dns.TypeTXT
		}
		limit := 512
		if test.size > 0 {
			m.SetEdns0(test.size, false)
			limit = int(test.size)
		}
		var tsig *dns.TSIG
		if test.signed {
			tsig = tsigRecord(testKey, time.Now(), 300)
		}
		conn := s.dial("udp")
		if _, err := conn.Write(packed(t, m, tsig, testSecret)); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		buf := make([]byte, dns.MaxMsgSize)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		r := new(dns.Msg)
		if err := r.Unpack(buf[:n]); err != nil {
			t.Fatal(err)
		}
		if n > limit || r.Truncated != test.truncated || test.answers >= 0 && len(r.Answer) != test.answers || test.signed && r.IsTsig() == nil {
			t.Errorf("%+v: %d octets, TC %t, %d answers, %d more, signed: %t", test, n, r.Truncated, len(r.Answer), len(r.Extra), r.IsTsig() != nil)
		}
	}
}

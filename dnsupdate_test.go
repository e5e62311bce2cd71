package ddns_test

import (
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	testKey    = "updater.example.org."
	testSecret = "bm90IGEgc2VjcmV0IGF0IGFsbCwganVzdCBhIHRlc3Q="
	otherKey   = "stranger.example.org."
)

// signedOptions is a server that takes updates signed with testKey.
func signedOptions() options {
	return options{
		block:  fmt.Sprintf("tsig {\n secret %s %s\n secret %s %s\n}", testKey, testSecret, otherKey, testSecret),
		policy: "key " + testKey + " {\n update *.dyn.example.org *\n update dyn.example.org *\n}\n",
		store:  "memory",
	}
}

// adding is an UPDATE that adds records to dyn.example.org.
func adding(t testing.TB, records ...string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetUpdate("dyn.example.org.")
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			t.Fatal(err)
		}
		m.Insert([]dns.RR{rr})
	}
	return m
}

// packed is a message on the wire, signed as tsig says; nil for not at all.
func packed(t testing.TB, m *dns.Msg, tsig *dns.TSIG, secret string) []byte {
	t.Helper()
	if tsig == nil {
		wire, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
	m = m.Copy()
	tsig.OrigId = m.Id
	m.Extra = append(m.Extra, tsig)
	wire, _, err := dns.TsigGenerate(m, secret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func tsigRecord(key string, at time.Time, fudge uint16) *dns.TSIG {
	return &dns.TSIG{
		Hdr:       dns.RR_Header{Name: key, Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
		Algorithm: dns.HmacSHA256, TimeSigned: uint64(at.Unix()), Fudge: fudge,
	}
}

// sent puts a message on a connection and reads one reply.
func sent(t testing.TB, conn net.Conn, wire []byte) *dns.Msg {
	t.Helper()
	c := &dns.Conn{Conn: conn}
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(wire); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, dns.MaxMsgSize)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(buf[:n]); err != nil {
		t.Fatal(err)
	}
	return m
}

func (s *server) dial(network string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial(network, s.dns)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

func (s *server) serial() uint32 {
	s.t.Helper()
	r := s.ask("dyn.example.org", dns.TypeSOA)
	if len(r.Answer) != 1 {
		s.t.Fatalf("asking for the SOA: got %v", r)
	}
	return r.Answer[0].(*dns.SOA).Serial
}

func tsigError(m *dns.Msg) string {
	if t := m.IsTsig(); t != nil && t.Error != 0 {
		return dns.RcodeToString[int(t.Error)]
	}
	return ""
}

func TestSignatureDecidesWhetherAnUpdateCounts(t *testing.T) {
	s := start(t, signedOptions())
	now := time.Now()
	tests := []struct {
		name   string
		key    string
		secret string
		at     time.Time
		fudge  uint16
		rcode  int
		error  string
	}{
		{"signed now", testKey, testSecret, now, 300, dns.RcodeSuccess, ""},
		{"signed within the fudge", testKey, testSecret, now.Add(-280 * time.Second), 300, dns.RcodeSuccess, ""},
		{"a clock that is fast", testKey, testSecret, now.Add(280 * time.Second), 300, dns.RcodeSuccess, ""},
		{"signed outside the fudge", testKey, testSecret, now.Add(-310 * time.Second), 300, dns.RcodeNotAuth, "BADTIME"},
		{"a clock that is too fast", testKey, testSecret, now.Add(310 * time.Second), 300, dns.RcodeNotAuth, "BADTIME"},
		{"a small fudge", testKey, testSecret, now.Add(-20 * time.Second), 10, dns.RcodeNotAuth, "BADTIME"},
		{"a large fudge used", testKey, testSecret, now.Add(-600 * time.Second), 65535, dns.RcodeNotAuth, "BADTIME"},
		{"a large fudge not used", testKey, testSecret, now, 65535, dns.RcodeSuccess, ""},
		{"signed in 1970", testKey, testSecret, time.Unix(1, 0), 300, dns.RcodeNotAuth, "BADTIME"},
		{"another secret", testKey, base64.StdEncoding.EncodeToString([]byte("wrong")), now, 300, dns.RcodeNotAuth, "BADSIG"},
		{"a key that tsig does not have", "nobody.example.org.", testSecret, now, 300, dns.RcodeNotAuth, "BADKEY"},
		{"a key in upper case, which tsig does not find", "UPDATER.example.org.", testSecret, now, 300, dns.RcodeNotAuth, "BADKEY"},
		{"a key that the policy does not have", otherKey, testSecret, now, 300, dns.RcodeRefused, ""},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			before := s.serial()
			m := adding(t, fmt.Sprintf("h%d.dyn.example.org. 60 A 192.0.2.1", i))
			r := sent(t, s.dial("udp"), packed(t, m, tsigRecord(test.key, test.at, test.fudge), test.secret))
			if r.Rcode != test.rcode || tsigError(r) != test.error {
				t.Errorf("got %s %q, want %s %q", dns.RcodeToString[r.Rcode], tsigError(r), dns.RcodeToString[test.rcode], test.error)
			}
			if !r.Response || r.Opcode != dns.OpcodeUpdate || r.Id != m.Id {
				t.Errorf("got header %v", r.MsgHdr)
			}
			if test.error == "BADTIME" && r.IsTsig().OtherLen != 6 {
				t.Errorf("BADTIME without the server's time: %v", r.IsTsig())
			}
			if changed := s.serial() != before; changed != (test.rcode == dns.RcodeSuccess) {
				t.Errorf("changed: %v", changed)
			}
		})
	}
}

func TestReplyToAnUpdateIsSigned(t *testing.T) {
	s := start(t, signedOptions())
	c := &dns.Client{Net: "tcp", TsigSecret: map[string]string{testKey: testSecret}}
	for _, record := range []string{"a.dyn.example.org. 60 A 192.0.2.1", "a.example.net. 60 A 192.0.2.1"} {
		m := adding(t, record)
		m.SetTsig(testKey, dns.HmacSHA256, 300, time.Now().Unix())
		r, _, err := c.Exchange(m, s.dns) // verifies
		if err != nil || r.IsTsig() == nil {
			t.Errorf("%s: got %v, %v", record, r, err)
		}
	}
}

func TestSignedMessageCountsOnce(t *testing.T) {
	s := start(t, signedOptions())
	for _, network := range []string{"udp", "tcp"} {
		t.Run(network, func(t *testing.T) {
			name := network + ".dyn.example.org."
			add := packed(t, adding(t, name+" 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret)
			conn := s.dial(network)
			if r := sent(t, conn, add); r.Rcode != dns.RcodeSuccess {
				t.Fatalf("got %v", r)
			}
			// Its owner takes the record away; the captured message must not bring it back.
			del := new(dns.Msg)
			del.SetUpdate("dyn.example.org.")
			del.RemoveName([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: name}}})
			if r := sent(t, s.dial(network), packed(t, del, tsigRecord(testKey, time.Now(), 300), testSecret)); r.Rcode != dns.RcodeSuccess {
				t.Fatalf("deleting: got %v", r)
			}
			before := s.serial()
			if r := sent(t, s.dial(network), add); r.Rcode != dns.RcodeRefused {
				t.Errorf("replayed from another socket: got %s, want REFUSED", dns.RcodeToString[r.Rcode])
			}
			// The client's own retransmission is told what the first copy was.
			if r := sent(t, conn, add); r.Rcode != dns.RcodeSuccess {
				t.Errorf("retransmitted: got %s, want NOERROR", dns.RcodeToString[r.Rcode])
			}
			// RFC 8945, section 5.3.2 lets the id of the header differ from the signed one.
			other := append([]byte{}, add...)
			other[0] ^= 0xff
			if r := sent(t, conn, other); r.Rcode != dns.RcodeRefused {
				t.Errorf("with another id: got %s, want REFUSED", dns.RcodeToString[r.Rcode])
			}
			if s.serial() != before {
				t.Error("a replay changed the zone")
			}
		})
	}
}

func TestReplayIsRememberedThroughAReload(t *testing.T) {
	s := start(t, signedOptions())
	add := packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret)
	if r := sent(t, s.dial("udp"), add); r.Rcode != dns.RcodeSuccess {
		t.Fatalf("got %v", r)
	}
	if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy policy\n ttl 120", 1)); err != nil {
		t.Fatal(err)
	}
	if r := sent(t, s.dial("udp"), add); r.Rcode != dns.RcodeRefused {
		t.Errorf("got %s, want REFUSED", dns.RcodeToString[r.Rcode])
	}
}

// TestWhereTSIGDoesNotVerify covers the server blocks in which nobody has checked a
// signature, however good it is.
func TestWhereTSIGDoesNotVerify(t *testing.T) {
	good := fmt.Sprintf("secret %s %s", testKey, testSecret)
	for name, block := range map[string]string{
		"no tsig plugin":           "",
		"tsig for another zone":    "tsig other.dyn.example.org {\n" + good + "\n}",
		"tsig without this secret": "tsig {\n secret " + otherKey + " " + testSecret + "\n}",
	} {
		t.Run(name, func(t *testing.T) {
			o := signedOptions()
			o.block = block
			s := start(t, o)
			before := s.serial()
			for _, tsig := range []*dns.TSIG{nil, tsigRecord(testKey, time.Now(), 300)} {
				r := sent(t, s.dial("tcp"), packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), tsig, testSecret))
				if r.Rcode != dns.RcodeRefused && r.Rcode != dns.RcodeNotAuth {
					t.Errorf("got %v", r)
				}
			}
			if s.serial() != before {
				t.Error("the zone changed")
			}
		})
	}
	t.Run("no policy", func(t *testing.T) {
		s := start(t, signedOptions())
		if err := s.reload(strings.Replace(s.corefile, "policy policy", "", 1)); err != nil {
			t.Fatal(err)
		}
		r := sent(t, s.dial("udp"), packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret))
		if r.Rcode != dns.RcodeNotImplemented {
			t.Errorf("got %v", r)
		}
	})
}

func TestRateOfUpdatesHoldsForKeys(t *testing.T) {
	o := signedOptions()
	o.stanza = "limit rate 3/1h"
	// Its own key: the allowance belongs to the process.
	key := fmt.Sprintf("rated%d.example.org.", time.Now().UnixNano())
	o.block = "tsig {\n secret " + key + " " + testSecret + "\n}"
	o.policy = "key " + key + " {\n update *.dyn.example.org *\n}\n"
	s := start(t, o)
	var got []string
	for i := range 5 {
		m := adding(t, fmt.Sprintf("h%d.dyn.example.org. 60 A 192.0.2.1", i))
		r := sent(t, s.dial("udp"), packed(t, m, tsigRecord(key, time.Now(), 300), testSecret))
		got = append(got, dns.RcodeToString[r.Rcode])
	}
	if want := "NOERROR NOERROR NOERROR REFUSED REFUSED"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	s.update("token", "192.0.2.9") // another identity
}

func TestSelfGrant(t *testing.T) {
	o := signedOptions()
	o.block = "tsig {\n secret laptop.dyn.example.org. " + testSecret + "\n}"
	o.policy = "key laptop.dyn.example.org. {\n self A AAAA\n}\n"
	s := start(t, o)
	for record, want := range map[string]int{
		"laptop.dyn.example.org. 60 A 192.0.2.1":   dns.RcodeSuccess,
		"laptop.dyn.example.org. 60 TXT x":         dns.RcodeRefused,
		"x.laptop.dyn.example.org. 60 A 192.0.2.1": dns.RcodeRefused,
		"desk.dyn.example.org. 60 A 192.0.2.1":     dns.RcodeRefused,
	} {
		r := sent(t, s.dial("udp"), packed(t, adding(t, record), tsigRecord("laptop.dyn.example.org.", time.Now(), 300), testSecret))
		if r.Rcode != want {
			t.Errorf("%s: got %s, want %s", record, dns.RcodeToString[r.Rcode], dns.RcodeToString[want])
		}
	}
}

func TestPeerAndExpiryOfAKey(t *testing.T) {
	for grant, want := range map[string]int{
		"from 127.0.0.0/8":   dns.RcodeSuccess,
		"from 192.0.2.0/24":  dns.RcodeRefused,
		"expires 2020-01-01": dns.RcodeRefused,
		"expires 2120-01-01": dns.RcodeSuccess,
	} {
		o := signedOptions()
		o.policy = "key " + testKey + " {\n update *.dyn.example.org\n " + grant + "\n}\n"
		s := start(t, o)
		r := sent(t, s.dial("udp"), packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret))
		if r.Rcode != want {
			t.Errorf("%s: got %s, want %s", grant, dns.RcodeToString[r.Rcode], dns.RcodeToString[want])
		}
		s.stop()
	}
}

func TestNotifyToThePrimaryIsNotAQuery(t *testing.T) {
	s := start(t, signedOptions())
	m := new(dns.Msg)
	m.SetNotify("dyn.example.org.")
	for _, network := range []string{"udp", "tcp"} {
		r := sent(t, s.dial(network), packed(t, m, nil, ""))
		if r.Opcode != dns.OpcodeNotify || r.Rcode != dns.RcodeNotImplemented || len(r.Answer)+len(r.Ns) != 0 || r.Id != m.Id {
			t.Errorf("%s: got %v", network, r)
		}
	}
}

// TestRewriteInFront shows that a rule which changes the zone's name on the way
// moves no record into another zone.
func TestRewriteInFront(t *testing.T) {
	o := signedOptions()
	o.block += "\nrewrite stop name exact alias.dyn.example.org dyn.example.org"
	s := start(t, o)
	before := s.serial()
	m := new(dns.Msg)
	m.SetUpdate("alias.dyn.example.org.")
	rr, err := dns.NewRR("a.example.net. 60 A 192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	m.Insert([]dns.RR{rr})
	r := sent(t, s.dial("udp"), packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret))
	if r.Rcode != dns.RcodeNotZone && r.Rcode != dns.RcodeNotAuth {
		t.Errorf("got %v", r)
	}
	if s.serial() != before {
		t.Error("the zone changed")
	}
}

// TestViewChoosesThePolicy runs two views of one zone and one store: an update is
// judged by the policy of the block that its view led to.
func TestViewChoosesThePolicy(t *testing.T) {
	s := start(t, signedOptions())
	for _, network := range []string{"udp", "tcp"} {
		// CoreDNS cannot stop a listener that has not begun yet.
		if _, err := s.exchange(network, "dyn.example.org", dns.TypeSOA); err != nil {
			t.Fatal(err)
		}
	}
	s.write("readonly", "")
	block := strings.Replace(s.corefile, "policy policy", "policy readonly", 1)
	block = strings.Replace(block, "bind 127.0.0.1", "bind 127.0.0.1\n view tcp {\n expr proto() == 'tcp'\n }", 1)
	if err := s.reload(block + "\n" + s.corefile); err != nil {
		t.Fatal(err)
	}
	for network, want := range map[string]int{"tcp": dns.RcodeRefused, "udp": dns.RcodeSuccess} {
		r := sent(t, s.dial(network), packed(t, adding(t, network+".dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret))
		if r.Rcode != want {
			t.Errorf("%s: got %s, want %s", network, dns.RcodeToString[r.Rcode], dns.RcodeToString[want])
		}
	}
	for _, network := range []string{"tcp", "udp"} {
		r, err := s.exchange(network, "udp.dyn.example.org", dns.TypeA)
		if err != nil || len(r.Answer) != 1 {
			t.Errorf("%s: the views do not share the zone: %v, %v", network, r, err)
		}
	}
}

// counter reads one of the plugin's counters.
func counter(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			for i := 0; i+1 < len(labels); i += 2 {
				if have[labels[i]] != labels[i+1] {
					continue metrics
				}
			}
			total += m.GetCounter().GetValue()
		}
	}
	return total
}

func TestAnswersAreCountedByOpcodeAndRcode(t *testing.T) {
	s := start(t, signedOptions())
	count := func(opcode, rcode string) float64 {
		return counter(t, "coredns_ddns_responses_total", "zone", "dyn.example.org.", "opcode", opcode, "rcode", rcode)
	}
	type of struct{ opcode, rcode string }
	before := map[of]float64{}
	want := map[of]float64{{"QUERY", "NOERROR"}: 1, {"QUERY", "NXDOMAIN"}: 2, {"QUERY", "REFUSED"}: 1, {"UPDATE", "NOERROR"}: 1, {"UPDATE", "REFUSED"}: 1, {"UPDATE", "NOTZONE"}: 1, {"NOTIFY", "NOTIMP"}: 1}
	for o := range want {
		before[o] = count(o.opcode, o.rcode)
	}
	s.ask("ns1.dyn.example.org", dns.TypeA)
	s.ask("a.dyn.example.org", dns.TypeA)
	s.ask("b.dyn.example.org", dns.TypeA)
	s.ask("dyn.example.org", dns.TypeAXFR)
	notify := new(dns.Msg)
	notify.SetNotify("dyn.example.org.")
	sent(t, s.dial("udp"), packed(t, notify, nil, ""))
	sent(t, s.dial("udp"), packed(t, adding(t, "a.dyn.example.org. 60 A 192.0.2.1"), nil, ""))
	for _, record := range []string{"a.dyn.example.org. 60 A 192.0.2.1", "a.example.net. 60 A 192.0.2.1"} {
		sent(t, s.dial("udp"), packed(t, adding(t, record), tsigRecord(testKey, time.Now(), 300), testSecret))
	}
	for o, n := range want {
		if got := count(o.opcode, o.rcode) - before[o]; got != n {
			t.Errorf("%s %s: got %v, want %v", o.opcode, o.rcode, got, n)
		}
	}
}

package ddns_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	_ "github.com/coredns/coredns/plugin/chaos"
	"github.com/miekg/dns"
)

// oddServer has the plugin that lets questions of other classes through.
func oddServer(t *testing.T) *server {
	t.Helper()
	o := signedOptions()
	o.block += "\nchaos\nerrors"
	s := start(t, o)
	s.update("host", "192.0.2.1", "2001:db8::1")
	return s
}

// raw sends a message as it is and returns the reply; nil without one.
func (s *server) raw(wire []byte) *dns.Msg {
	s.t.Helper()
	conn, err := net.Dial("udp", s.dns)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Write(wire); err != nil {
		s.t.Fatal(err)
	}
	buf := make([]byte, 65535)
	n, err := conn.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(buf[:n]); err != nil {
		s.t.Fatalf("unpacking the reply: %v", err)
	}
	return m
}

func question(name string, qtype, qclass uint16, opcode int) *dns.Msg {
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.Question[0].Qclass = qclass
	m.Opcode = opcode
	return m
}

func TestOddQuestions(t *testing.T) {
	s := oddServer(t)
	const host = "host.dyn.example.org."
	two := question(host, dns.TypeA, dns.ClassINET, 0)
	two.Question = append(two.Question, two.Question[0])
	none := question(host, dns.TypeA, dns.ClassINET, 0)
	none.Question = nil
	lying := func(count uint16) []byte {
		wire := packed(t, question(host, dns.TypeA, dns.ClassINET, 0), nil, "")
		binary.BigEndian.PutUint16(wire[4:], count)
		return wire
	}
	badVersion := question(host, dns.TypeA, dns.ClassINET, 0)
	badVersion.SetEdns0(1232, false)
	badVersion.IsEdns0().SetVersion(1)
	tests := []struct {
		name string
		wire []byte
		want string
	}{
		{"an ordinary one", packed(t, question(host, dns.TypeA, dns.ClassINET, 0), nil, ""), "NOERROR"},
		{"class CH", packed(t, question(host, dns.TypeA, dns.ClassCHAOS, 0), nil, ""), "REFUSED"},
		{"class CH for the version", packed(t, question("version.bind.dyn.example.org.", dns.TypeTXT, dns.ClassCHAOS, 0), nil, ""), "REFUSED"},
		{"class HS", packed(t, question(host, dns.TypeA, dns.ClassHESIOD, 0), nil, ""), "REFUSED"},
		{"class NONE", packed(t, question(host, dns.TypeA, dns.ClassNONE, 0), nil, ""), "REFUSED"},
		{"class ANY", packed(t, question(host, dns.TypeA, dns.ClassANY, 0), nil, ""), "REFUSED"},
		{"class 0", packed(t, question(host, dns.TypeA, 0, 0), nil, ""), "REFUSED"},
		{"no question", packed(t, none, nil, ""), "FORMERR"},
		{"two questions", packed(t, two, nil, ""), "FORMERR"},
		{"a count of no question, with one", lying(0), "FORMERR"},
		{"a count of 65535 questions, with one", lying(65535), "FORMERR"},
		{"EDNS version 1", packed(t, badVersion, nil, ""), "BADVERS"},
		{"a zone of somebody else", packed(t, question("www.example.net.", dns.TypeA, dns.ClassINET, 0), nil, ""), "REFUSED"},
		{"the root", packed(t, question(".", dns.TypeNS, dns.ClassINET, 0), nil, ""), "REFUSED"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := s.raw(test.wire)
			if r == nil {
				t.Fatal("no reply")
			}
			rcode := r.Rcode
			if opt := r.IsEdns0(); opt != nil && opt.ExtendedRcode() != 0 {
				rcode = opt.ExtendedRcode() | r.Rcode
			}
			got := dns.RcodeToString[rcode]
			if rcode == dns.RcodeBadVers {
				got = "BADVERS" // not BADSIG, which has the same number
			}
			if got != test.want {
				t.Errorf("got %s, want %s\n%v", got, test.want, r)
			}
			if test.want != "NOERROR" && len(r.Answer) > 0 {
				t.Errorf("got an answer: %v", r)
			}
		})
	}
	for opcode := 1; opcode < 16; opcode++ {
		t.Run(fmt.Sprintf("opcode %d", opcode), func(t *testing.T) {
			want := dns.RcodeNotImplemented
			if opcode == dns.OpcodeUpdate {
				want = dns.RcodeRefused // it is not signed
			}
			r := s.raw(packed(t, question("dyn.example.org.", dns.TypeSOA, dns.ClassINET, opcode), nil, ""))
			if r == nil || r.Rcode != want || r.Opcode != opcode || len(r.Answer) > 0 {
				t.Errorf("got %v, want %s", r, dns.RcodeToString[want])
			}
		})
	}
}

// TestEveryQtype asks for each of the 65536 types at a name with addresses.
func TestEveryQtype(t *testing.T) {
	s := oddServer(t)
	panics := counter(t, "coredns_panics_total")
	want := func(qtype uint16) (rcode, answers int) {
		switch {
		case qtype == dns.TypeA || qtype == dns.TypeAAAA:
			return dns.RcodeSuccess, 1
		case qtype == dns.TypeANY:
			return dns.RcodeSuccess, 2
		case qtype == dns.TypeAXFR || qtype == dns.TypeIXFR:
			return dns.RcodeNotAuth, 0 // the name is no zone
		case qtype == 0 || qtype == dns.TypeOPT || qtype >= 128 && qtype <= 255 || qtype == dns.TypeReserved:
			return dns.RcodeNotImplemented, 0 // RFC 6895, section 3.1
		}
		return dns.RcodeSuccess, 0
	}
	const workers = 8
	var wait sync.WaitGroup
	for k := range workers {
		wait.Go(func() {
			client := &dns.Client{Timeout: 5 * time.Second}
			conn, err := client.Dial(s.dns)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			for q := k; q < 1<<16; q += workers {
				m := question("host.dyn.example.org.", uint16(q), dns.ClassINET, 0)
				r, _, err := client.ExchangeWithConn(m, conn)
				if err != nil {
					t.Errorf("type %d: %v", q, err)
					return
				}
				rcode, answers := want(uint16(q))
				soa := rcode == dns.RcodeSuccess && answers == 0
				if r.Rcode != rcode || len(r.Answer) != answers || soa != (len(r.Ns) == 1) {
					t.Errorf("type %d: got\n%v", q, r)
					return
				}
			}
		})
	}
	wait.Wait()
	if got := counter(t, "coredns_panics_total"); got != panics {
		t.Errorf("%v panics", got-panics)
	}
}

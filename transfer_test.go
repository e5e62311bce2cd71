package ddns_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// transferred is what one transfer sent.
type transferred struct {
	records []dns.RR
	err     error
}

// transfer fetches dyn.example.org: whole for serial 0, else by IXFR.
func (s *server) transfer(serial uint32) transferred {
	m := new(dns.Msg)
	if serial == 0 {
		m.SetAxfr("dyn.example.org.")
	} else {
		m.SetIxfr("dyn.example.org.", serial, "ns1.dyn.example.org.", "hostmaster.dyn.example.org.")
	}
	tr := &dns.Transfer{DialTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second}
	envelopes, err := tr.In(m, s.dns)
	if err != nil {
		return transferred{err: err}
	}
	var t transferred
	for e := range envelopes {
		t.err = errors.Join(t.err, e.Error)
		t.records = append(t.records, e.RR...)
	}
	return t
}

// incremental reports whether the records are a difference: after the SOA comes
// another one (RFC 1995, section 4).
func (t transferred) incremental() bool {
	return len(t.records) > 2 && t.records[1].Header().Rrtype == dns.TypeSOA
}

func texts(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		out = append(out, rr.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// applied is a zone after a difference, as a secondary makes it.
func applied(t testing.TB, zone []string, difference []dns.RR) []string {
	t.Helper()
	have := map[string]bool{}
	for _, r := range zone {
		have[r] = true
	}
	adding := true // flips at each SOA after the first
	for i, rr := range difference[1 : len(difference)-1] {
		if rr.Header().Rrtype == dns.TypeSOA {
			adding = !adding
		}
		if have[rr.String()] == adding {
			t.Fatalf("record %d, %v: adding %v does not fit the zone", i+1, rr, adding)
		}
		if adding {
			have[rr.String()] = true
		} else {
			delete(have, rr.String())
		}
	}
	var out []string
	for r := range have {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

func TestIncrementalTransferLeadsToTheWholeZone(t *testing.T) {
	o := signedOptions()
	o.block += "\ntransfer {\n to *\n}"
	s := start(t, o)
	for i := range 40 {
		s.update(fmt.Sprintf("base%d", i), "192.0.2.1", "2001:db8::1")
	}
	base := s.transfer(0)
	if base.err != nil || base.incremental() {
		t.Fatalf("AXFR: %v", base.err)
	}
	first, last := base.records[0], base.records[len(base.records)-1]
	if first.Header().Rrtype != dns.TypeSOA || first.String() != last.String() {
		t.Errorf("AXFR does not begin and end with the SOA: %v, %v", first, last)
	}
	from := first.(*dns.SOA).Serial
	for i := range 8 {
		s.update("host", fmt.Sprintf("192.0.2.%d", i+1))
	}
	s.call("DELETE", "/update?fqdn=base0.dyn.example.org")
	whole, difference := s.transfer(0), s.transfer(from)
	if difference.err != nil || !difference.incremental() {
		t.Fatalf("IXFR: got %v, %v", difference.records, difference.err)
	}
	if got, want := applied(t, texts(base.records), difference.records), texts(whole.records); !slices.Equal(got, want) {
		t.Errorf("after the difference: got %v, want %v", got, want)
	}
	if r := s.transfer(s.serial()); r.err != nil || len(r.records) != 1 {
		t.Errorf("IXFR of what is current: got %v, %v; want the SOA alone", r.records, r.err)
	}
	if r := s.transfer(s.serial() + 5); r.err != nil || len(r.records) != 1 {
		t.Errorf("IXFR from the future: got %v, %v; want the SOA alone", r.records, r.err)
	}
	if r := s.transfer(from - 1000); r.err != nil || r.incremental() || !slices.Equal(texts(r.records), texts(whole.records)) {
		t.Errorf("IXFR from a serial that never was is not the whole zone: %v", r.err)
	}
}

func TestDifferenceLargerThanTheZoneIsNotSent(t *testing.T) {
	o := signedOptions()
	o.block += "\ntransfer {\n to *\n}"
	s := start(t, o)
	from := s.serial()
	for i := range 20 { // each is two SOAs and two addresses, in a zone of five records
		s.update("host", fmt.Sprintf("192.0.2.%d", i+1))
	}
	whole, r := s.transfer(0), s.transfer(from)
	if r.err != nil || r.incremental() || !slices.Equal(texts(r.records), texts(whole.records)) {
		t.Errorf("got %v, %v; want the whole zone", r.records, r.err)
	}
}

func TestWhoMayNotTransfer(t *testing.T) {
	rcode := func(s *server, network, zone string) int {
		m := new(dns.Msg)
		m.SetAxfr(zone)
		return sent(t, s.dial(network), packed(t, m, nil, "")).Rcode
	}
	o := signedOptions()
	s := start(t, o)
	if got := rcode(s, "tcp", "dyn.example.org."); got != dns.RcodeRefused {
		t.Errorf("without transfer: got %s, want REFUSED", dns.RcodeToString[got])
	}
	s.stop()
	o.block += "\ntransfer {\n to 192.0.2.1\n}"
	s = start(t, o)
	if got := rcode(s, "tcp", "dyn.example.org."); got != dns.RcodeRefused {
		t.Errorf("from an address that is not listed: got %s, want REFUSED", dns.RcodeToString[got])
	}
	s.stop()
	o.block = strings.Replace(o.block, "192.0.2.1", "*", 1)
	s = start(t, o)
	if got := rcode(s, "udp", "dyn.example.org."); got != dns.RcodeRefused {
		t.Errorf("over UDP: got %s, want REFUSED", dns.RcodeToString[got])
	}
	if got := rcode(s, "tcp", "ns1.dyn.example.org."); got != dns.RcodeNotAuth {
		t.Errorf("of a name that is no zone: got %s, want NOTAUTH", dns.RcodeToString[got])
	}
	s.stop()
	o.block += "\n"
	o.block = strings.Replace(o.block, "tsig {", "tsig {\n require AXFR IXFR", 1)
	s = start(t, o)
	if got := rcode(s, "tcp", "dyn.example.org."); got != dns.RcodeRefused {
		t.Errorf("unsigned where tsig requires it: got %s, want REFUSED", dns.RcodeToString[got])
	}
}

// bigZone is a server with a seeded zone of so many hosts.
func bigZone(t testing.TB, hosts int) *server {
	dir := t.TempDir()
	var zone strings.Builder
	zone.WriteString("@ 3600 SOA ns1 hostmaster 1 3600 600 86400 60\n@ 3600 NS ns1\nns1 3600 A 127.0.0.1\n")
	for i := range hosts {
		fmt.Fprintf(&zone, "h%06d 60 A 10.%d.%d.%d\n", i, i>>16, i>>8&255, i&255)
	}
	o := signedOptions()
	o.dir, o.block = dir, o.block+"\ntransfer {\n to *\n}"
	s := &server{t: t, dir: dir}
	s.write("db", zone.String())
	o.stanza = "seed db"
	return start(t, o)
}

// TestManyTransfersAtOnce has a hundred secondaries ask for a big zone at the same
// time. Some are told to come back; none gets half a zone, whatever changes
// meanwhile, and memory stays bounded.
func TestManyTransfersAtOnce(t *testing.T) {
	hosts, secondaries := 10000, 100
	s := bigZone(t, hosts)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := make(chan struct{})
	var writer, wg sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// Two names together: no transfer may have one without the other.
			if _, err := s.try("GET", updatePath("pair", fmt.Sprintf("192.0.2.%d", i%200+1), fmt.Sprintf("2001:db8::%x", i%200+1))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var mu sync.Mutex
	complete, refused, peak := 0, 0, uint64(0)
	for range secondaries {
		wg.Go(func() {
			n, pair, err := s.count()
			mu.Lock()
			defer mu.Unlock()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse)
			switch {
			case err != nil:
				refused++
			case n < hosts || pair != "" && !consistent(pair):
				t.Errorf("got %d records and pair %q", n, pair)
			default:
				complete++
			}
		})
	}
	wg.Wait()
	close(stop)
	writer.Wait()
	if complete+refused != secondaries || complete < 64 {
		t.Errorf("%d complete, %d refused, want at least 64 complete", complete, refused)
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d complete, %d refused, heap at most %d MB above the start", complete, refused, int64(peak-before.HeapInuse)>>20)
	if grown := int64(peak) - int64(before.HeapInuse); grown > 300<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	// Every slot is free again.
	for range 3 {
		if n, _, err := s.count(); err != nil || n < hosts {
			t.Fatalf("afterwards: got %d records, %v", n, err)
		}
	}
}

func consistent(pair string) bool {
	a, b, ok := strings.Cut(pair, " ")
	if !ok {
		return false
	}
	v4, err4 := strconv.Atoi(strings.TrimPrefix(a, "192.0.2."))
	v6, err6 := strconv.ParseInt(strings.TrimPrefix(b, "2001:db8::"), 16, 32)
	return err4 == nil && err6 == nil && v4 == int(v6)
}

// count transfers the zone without keeping it: the number of records, and the
// addresses of the name pair.
func (s *server) count() (n int, pair string, err error) {
	m := new(dns.Msg)
	m.SetAxfr("dyn.example.org.")
	conn, err := net.Dial("tcp", s.dns)
	if err != nil {
		return 0, "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(60 * time.Second))
	c := &dns.Conn{Conn: conn}
	if err := c.WriteMsg(m); err != nil {
		return 0, "", err
	}
	var a, aaaa string
	for soas := 0; soas < 2; {
		r, err := c.ReadMsg()
		if err != nil {
			return n, "", err
		}
		if r.Rcode != dns.RcodeSuccess {
			return n, "", errors.New(dns.RcodeToString[r.Rcode])
		}
		for _, rr := range r.Answer {
			n++
			switch v := rr.(type) {
			case *dns.SOA:
				soas++
			case *dns.A:
				if strings.HasPrefix(v.Hdr.Name, "pair.") {
					a = v.A.String()
				}
			case *dns.AAAA:
				if strings.HasPrefix(v.Hdr.Name, "pair.") {
					aaaa = v.AAAA.String()
				}
			}
		}
	}
	return n, strings.TrimSpace(a + " " + aaaa), nil
}

// TestSecondaryThatHangsUp leaves transfers in their middle, more often than there
// are slots.
func TestSecondaryThatHangsUp(t *testing.T) {
	s := bigZone(t, 20000)
	for range 70 {
		m := new(dns.Msg)
		m.SetAxfr("dyn.example.org.")
		conn, err := net.Dial("tcp", s.dns)
		if err != nil {
			t.Fatal(err)
		}
		c := &dns.Conn{Conn: conn}
		if err := c.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadMsg(); err != nil {
			t.Fatal(err)
		}
		conn.(*net.TCPConn).SetLinger(0) // RST
		conn.Close()
	}
	if n, _, err := s.count(); err != nil || n < 20000 {
		t.Errorf("afterwards: got %d records, %v", n, err)
	}
}

// TestNotifyIsCoalesced counts what a secondary is told while hundreds of updates
// pass, and that the last change is not forgotten.
func TestNotifyIsCoalesced(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	notified := make(chan *dns.Msg, 1000)
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			m := new(dns.Msg)
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			reply := new(dns.Msg)
			reply.SetReply(m)
			if wire, err := reply.Pack(); err == nil {
				pc.WriteTo(wire, from)
			}
			notified <- m
		}
	}()
	next := func() *dns.Msg {
		select {
		case m := <-notified:
			return m
		case <-time.After(20 * time.Second):
			t.Fatal("no NOTIFY")
			return nil
		}
	}
	o := signedOptions()
	o.block += "\ntransfer {\n to " + pc.LocalAddr().String() + "\n}"
	s := start(t, o)
	if m := next(); m.Opcode != dns.OpcodeNotify || m.Question[0].Name != "dyn.example.org." || m.Question[0].Qtype != dns.TypeSOA {
		t.Errorf("at the start: got %v", m)
	}
	began := time.Now()
	for i := range 300 {
		s.update("host", fmt.Sprintf("192.0.2.%d", i%2+1))
	}
	took := time.Since(began)
	got := 1
	next()
	s.update("last", "192.0.2.9")
	next() // of the last change or one shortly before it; that one is told again:
	for quiet := false; !quiet; {
		select {
		case <-notified:
			got++
		case <-time.After(1500 * time.Millisecond):
			quiet = true
		}
	}
	if most := int(took/time.Second) + 3; got > most {
		t.Errorf("300 updates in %v were %d NOTIFYs, want at most %d", took, got, most)
	}
}

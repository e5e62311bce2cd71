package main

import (
	"net"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestAddressSaysWhoseItIs(t *testing.T) {
	for _, host := range []int{0, 1, 999, 999_999} {
		for generation := range 16 {
			if got := ownerOf(address(host, generation).As4()); got != host {
				t.Errorf("address of host %d, changed %d times: belongs to %d", host, generation, got)
			}
		}
	}
	if got := ownerOf([4]byte{192, 0, 2, 1}); got != -1 {
		t.Errorf("192.0.2.1 belongs to host %d, want none", got)
	}
}

func TestSpreadVisitsEveryHostOnce(t *testing.T) {
	for _, n := range []int{1, 1000, 10_000, 100_000} {
		seen := make([]bool, n)
		for k := range n {
			i := spread(k, n)
			if seen[i] {
				t.Fatalf("of %d hosts, %d is visited twice", n, i)
			}
			seen[i] = true
		}
	}
}

func TestUpdatesAlwaysChangeTheHost(t *testing.T) {
	s := &server{hosts: 10}
	now := make(map[int]int) // generation by host; 0 at first
	for k := range 400 {
		host := spread(k, s.hosts)
		if g := s.generation(k); g == now[host] {
			t.Fatalf("update %d gives host %d the address it has", k, host)
		} else {
			now[host] = g
		}
	}
}

func TestCheckKnowsRightFromWrong(t *testing.T) {
	peer := &peer{missRcode: dns.RcodeNameError}
	q := question{host: 7}
	reply := func(change func(m *dns.Msg)) []byte {
		m := new(dns.Msg)
		if err := m.Unpack(appendQuery(nil, 1, q)); err != nil {
			t.Fatal(err)
		}
		m = new(dns.Msg).SetReply(m)
		m.Answer = []dns.RR{&dns.A{
			Hdr: dns.RR_Header{Name: hostName(7), Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
			A:   address(7, 3).AsSlice(),
		}}
		change(m)
		wire, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
	tests := []struct {
		name   string
		change func(m *dns.Msg)
		want   string // part of the complaint; empty: right
	}{
		{"the address of the host", func(*dns.Msg) {}, ""},
		{"the same with a compressed owner", func(m *dns.Msg) { m.Compress = true }, ""},
		{"the address of another host", func(m *dns.Msg) { m.Answer[0].(*dns.A).A = address(8, 0).AsSlice() }, "host 8 for host 7"},
		{"an address of nobody", func(m *dns.Msg) { m.Answer[0].(*dns.A).A = net.IPv4(192, 0, 2, 1) }, "for host 7"},
		{"no answer at all", func(m *dns.Msg) { m.Answer = nil }, "0 answers"},
		{"NXDOMAIN", func(m *dns.Msg) { m.Rcode = dns.RcodeNameError }, "NXDOMAIN"},
		{"another question", func(m *dns.Msg) { m.Question[0].Name = hostName(8) }, "question"},
		{"a query", func(m *dns.Msg) { m.Response = false }, "not an answer"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			err := peer.check(reply(tc.change), q)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("got %v, want it to be right", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want a complaint with %q", err, tc.want)
			}
		})
	}
	missed := question{host: 7, miss: true}
	q = missed
	if err := peer.check(reply(func(m *dns.Msg) { m.Answer, m.Rcode = nil, dns.RcodeNameError }), missed); err != nil {
		t.Errorf("NXDOMAIN for a name that does not exist: %v", err)
	}
	if err := peer.check(reply(func(m *dns.Msg) { m.Answer = nil }), missed); err == nil {
		t.Error("NOERROR for a name that does not exist is taken for right")
	}
}

func TestSyncsAddsUpTheSummary(t *testing.T) {
	const summary = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 90.00    0.090000         100       900           fdatasync
 10.00    0.010000         100       100         2 fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.100000         100      1000         2 total
`
	if got := syncs(summary); got != 1000 {
		t.Errorf("got %d calls, want 1000", got)
	}
}

package ddns_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/coredns/coredns/plugin/file"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns"
	"github.com/coredns-ddns/ddns/internal/policy"
)

// blank is a server whose Corefile the test writes; its token may do everything in
// the zones.
func blank(t testing.TB, zones ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), dns: freeAddress(t), http: freeAddress(t), token: newToken(t)}
	text := "token all " + policy.HashToken(s.token) + " {\n reload\n"
	for _, z := range zones {
		text += fmt.Sprintf(" update *.%s *\n", z)
	}
	s.write("policy", text+"}\n")
	return s
}

// serve starts a Corefile with the words DNS, HTTP and DIR filled in.
func (s *server) serve(corefile string) {
	s.t.Helper()
	s.corefile = strings.NewReplacer("DNS", port(s.dns), "HTTP", s.http, "DIR", s.dir).Replace(corefile)
	s.run()
}

// publish updates a full name.
func (s *server) publish(name, address string) answer {
	s.t.Helper()
	a := s.call("GET", "/update?fqdn="+name+"&ip="+address)
	if a.status != http.StatusOK {
		s.t.Fatalf("updating %s: %d %v", name, a.status, a.body)
	}
	return a
}

// first is the first address that a full name has, or the RCODE.
func (s *server) first(name string) string {
	s.t.Helper()
	r := s.ask(name, dns.TypeA)
	for _, rr := range r.Answer {
		if a, ok := rr.(*dns.A); ok {
			return a.A.String()
		}
	}
	return dns.RcodeToString[r.Rcode]
}

func TestCacheInTheBlockKeepsNothingOfOurs(t *testing.T) {
	s := start(t, options{block: "cache 3600 {\n success 1000 3600 60\n denial 1000 3600 60\n prefetch 1\n serve_stale 1h\n}"})
	for round := range 5 {
		if got := s.first("host.dyn.example.org"); got != "NXDOMAIN" {
			t.Fatalf("round %d, before the update: got %s", round, got)
		}
		if r := s.ask("host.dyn.example.org", dns.TypeAAAA); len(r.Answer) != 0 {
			t.Fatalf("round %d: got %v", round, r)
		}
		for n := range 3 {
			want := fmt.Sprintf("192.0.2.%d", n+1)
			s.update("host", want)
			if got := s.first("host.dyn.example.org"); got != want {
				t.Errorf("round %d: got %s, want %s at once", round, got, want)
			}
		}
		s.update("host", "2001:db8::1") // NODATA, a moment ago
		if r := s.ask("host.dyn.example.org", dns.TypeAAAA); len(r.Answer) != 1 {
			t.Errorf("round %d: the other family: got %v", round, r)
		}
		if a := s.call("DELETE", "/update?fqdn=host.dyn.example.org"); a.status != http.StatusOK {
			t.Fatalf("got %d %v", a.status, a.body)
		}
	}
}

// TestBlocksShareAStoreAndAnHTTPAddress has two server blocks with a zone each.
func TestBlocksShareAStoreAndAnHTTPAddress(t *testing.T) {
	s := blank(t, "a.example", "b.example")
	const block = `ZONE:DNS {
		bind 127.0.0.1
		root DIR
		ddns {
			ns ns1.ZONE 127.0.0.1
			store bolt shared.db
			policy POLICY
			http HTTP
		}
	}
	`
	// The other zone's policy knows the token too, and grants it nothing there.
	s.write("policy-b", "token all "+policy.HashToken(s.token)+" {\n update only.b.example\n}\n")
	corefile := strings.NewReplacer("ZONE", "a.example", "POLICY", "policy").Replace(block) +
		strings.NewReplacer("ZONE", "b.example", "POLICY", "policy-b").Replace(block)
	s.serve(corefile)
	s.publish("host.a.example", "192.0.2.1")
	s.publish("only.b.example", "192.0.2.2")
	if a := s.call("GET", "/update?fqdn=host.b.example&ip=192.0.2.3"); a.status != http.StatusForbidden {
		t.Errorf("the policy of the other stanza counts: got %d %v", a.status, a.body)
	}
	if a := s.call("GET", "/update?fqdn=host.c.example&ip=192.0.2.3"); a.status != http.StatusNotFound {
		t.Errorf("a zone of none: got %d %v", a.status, a.body)
	}
	check := func(when string) {
		t.Helper()
		if a, b := s.first("host.a.example"), s.first("only.b.example"); a != "192.0.2.1" || b != "192.0.2.2" {
			t.Errorf("%s: got %s and %s", when, a, b)
		}
	}
	check("after the updates")
	if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy policy\n ttl 90", 1)); err != nil {
		t.Fatal(err)
	}
	check("after a reload")
	s.stop()
	if dbs, _ := filepath.Glob(filepath.Join(s.dir, "*.db")); len(dbs) != 1 {
		t.Errorf("got databases %v, want the one", dbs)
	}
	s.serve(corefile)
	check("after a restart")
}

// TestOneZoneInTwoBlocks serves a zone on two ports from one file.
func TestOneZoneInTwoBlocks(t *testing.T) {
	s := blank(t, "dyn.example.org")
	other := &server{t: t, dns: freeAddress(t), http: freeAddress(t), token: s.token}
	block := `dyn.example.org:DNS {
		bind 127.0.0.1
		root DIR
		ddns {
			ns ns1.dyn.example.org 127.0.0.1
			store bolt ddns.db
			policy policy
			http HTTP
		}
	}
	`
	s.serve(block + strings.NewReplacer("DNS", port(other.dns), "HTTP", other.http).Replace(block))
	for n := range 10 {
		one, two := fmt.Sprintf("192.0.2.%d", n), fmt.Sprintf("198.51.100.%d", n)
		s.update("host", one)
		if a, b := s.first("host.dyn.example.org"), other.first("host.dyn.example.org"); a != one || b != one {
			t.Errorf("after an update of the first: got %s and %s, want %s", a, b, one)
		}
		other.update("host", two)
		if a, b := s.first("host.dyn.example.org"), other.first("host.dyn.example.org"); a != two || b != two {
			t.Errorf("after an update of the second: got %s and %s, want %s", a, b, two)
		}
	}
}

// TestViewsWithStoresOfTheirOwn is a split horizon: one name, two zones.
func TestViewsWithStoresOfTheirOwn(t *testing.T) {
	s := blank(t, "dyn.example.org")
	outside := freeAddress(t)
	block := `dyn.example.org:DNS {
		bind 127.0.0.1
		root DIR
		view NAME {
			expr proto() == 'PROTO'
		}
		ddns {
			ns ns1.dyn.example.org 127.0.0.1
			store bolt NAME.db
			policy policy
			http HTTP
		}
	}
	`
	s.serve(strings.NewReplacer("NAME", "inside", "PROTO", "udp").Replace(block) +
		strings.NewReplacer("NAME", "outside", "PROTO", "tcp", "HTTP", outside).Replace(block))
	s.update("host", "10.0.0.1")
	s.http = outside
	s.update("host", "192.0.2.1")
	for network, want := range map[string]string{"udp": "10.0.0.1", "tcp": "192.0.2.1"} {
		r, err := s.exchange(network, "host.dyn.example.org", dns.TypeA)
		if err != nil || len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != want {
			t.Errorf("%s: got %v, %v; want %s", network, r, err, want)
		}
	}
}

// TestReadyWaitsForEveryStanza holds up the second stanza's zone file.
func TestReadyWaitsForEveryStanza(t *testing.T) {
	s := blank(t)
	address := freeAddress(t)
	slow := filepath.Join(s.dir, "slow")
	s.write("slow", "@ 60 SOA ns1 hostmaster 1 60 60 60 60\n@ 60 NS ns1\nns1 60 A 127.0.0.1\n")
	held, proceed := ddns.HoldZoneFile(t, slow)
	block := `ZONE:DNS {
		bind 127.0.0.1
		root DIR
		ready READY
		ddns {
			ns ns1.ZONE 127.0.0.1
			store memory
			http off
			MORE
		}
	}
	`
	ready := func() int {
		resp, err := fresh.Get("http://" + address + "/ready")
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		s.serve(strings.NewReplacer("READY", address, "ZONE", "a.example", "MORE", "").Replace(block) +
			strings.NewReplacer("READY", address, "ZONE", "b.example", "MORE", "file slow").Replace(block))
	}()
	<-held
	for range 5 {
		if got := ready(); got != http.StatusServiceUnavailable {
			t.Errorf("while a zone is not there: got %d, want 503", got)
		}
	}
	proceed <- struct{}{}
	<-started
	if got := ready(); got != http.StatusOK {
		t.Errorf("once all are there: got %d, want 200", got)
	}
}

func TestFallthrough(t *testing.T) {
	tests := []struct {
		name, stanza, rest string
		owner              string
		qtype              uint16
		want               string // RCODE, and the types of the answer and of the additional section
	}{
		{"a name that exists is ours", "fallthrough", "whoami", "host.dyn.example.org.", dns.TypeA, "NOERROR A |"},
		{"a type that does not exist is ours", "fallthrough", "whoami", "host.dyn.example.org.", dns.TypeMX, "NOERROR |"},
		{"a name that does not exist goes to whoami", "fallthrough", "whoami", "none.dyn.example.org.", dns.TypeA, "NOERROR | A SRV"},
		{"and to a file", "fallthrough", "file other dyn.example.org", "static.dyn.example.org.", dns.TypeA, "NOERROR A |"},
		{"a file has no say about our names", "fallthrough", "file other dyn.example.org", "host.dyn.example.org.", dns.TypeTXT, "NOERROR |"},
		{"a name in the zone listed", "fallthrough sub.dyn.example.org", "whoami", "none.sub.dyn.example.org.", dns.TypeA, "NOERROR | A SRV"},
		{"a name outside of the zone listed", "fallthrough sub.dyn.example.org", "whoami", "none.dyn.example.org.", dns.TypeA, "NXDOMAIN |"},
		{"without it nothing is passed on", "", "whoami", "none.dyn.example.org.", dns.TypeA, "NXDOMAIN |"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := &server{t: t, dir: t.TempDir()}
			s.write("other", "$TTL 60\n@ SOA a b 1 60 60 60 60\n@ NS a\na A 192.0.2.1\nstatic A 192.0.2.2\nhost TXT theirs\n")
			s = start(t, options{dir: s.dir, store: "memory", stanza: test.stanza, block: test.rest})
			s.update("host", "192.0.2.7")
			r := s.ask(test.owner, test.qtype)
			got := []string{dns.RcodeToString[r.Rcode]}
			var extra []string
			for _, rr := range r.Answer {
				got = append(got, dns.TypeToString[rr.Header().Rrtype])
			}
			for _, rr := range r.Extra {
				extra = append(extra, dns.TypeToString[rr.Header().Rrtype])
			}
			slices.Sort(extra)
			if text := strings.Join(append(append(got, "|"), extra...), " "); text != test.want {
				t.Errorf("got %q, want %q\n%v", text, test.want, r)
			}
		})
	}
}

// TestAliasIntoAnotherZone follows a chain through the stanza's zones.
func TestAliasIntoAnotherZone(t *testing.T) {
	s := blank(t, "a.example", "b.example")
	s.write("a", `$TTL 60
@ SOA ns1 hostmaster 1 60 60 60 60
@ NS ns1
ns1 A 127.0.0.1
there CNAME host.b.example.
back CNAME back.b.example.
end A 192.0.2.9
loop CNAME loop.b.example.
none CNAME none.b.example.
out CNAME www.example.net.
cut CNAME host.sub.b.example.
self CNAME self
`)
	s.write("b", `$TTL 60
@ SOA ns1 hostmaster 1 60 60 60 60
@ NS ns1
ns1 A 127.0.0.1
host A 192.0.2.1
back CNAME end.a.example.
loop CNAME loop.a.example.
sub NS ns.example.net.
`)
	s.serve(`.:DNS {
		bind 127.0.0.1
		root DIR
		ddns a.example b.example {
			file a a.example
			file b b.example
			store memory
			policy policy
			http HTTP
		}
	}`)
	for _, test := range []struct{ name, owner, want string }{
		{"into another zone", "there.a.example.", "NOERROR CNAME A"},
		{"there and back", "back.a.example.", "NOERROR CNAME CNAME A"},
		{"round and round, each record once", "loop.a.example.", "NOERROR CNAME CNAME"},
		{"to a name that does not exist", "none.a.example.", "NXDOMAIN CNAME SOA b.example."},
		{"out of our zones", "out.a.example.", "NOERROR CNAME"},
		{"to a name that is delegated", "cut.a.example.", "NOERROR CNAME"},
		{"to itself", "self.a.example.", "NOERROR CNAME"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.ask(test.owner, dns.TypeA)
			got := dns.RcodeToString[r.Rcode]
			for _, rr := range r.Answer {
				got += " " + dns.TypeToString[rr.Header().Rrtype]
			}
			for _, rr := range r.Ns {
				got += " " + dns.TypeToString[rr.Header().Rrtype] + " " + rr.Header().Name
			}
			if got != test.want || !r.Authoritative {
				t.Errorf("got %q, want %q\n%v", got, test.want, r)
			}
		})
	}
	// What is updated in one zone shows through the other's alias.
	s.publish("none.b.example", "192.0.2.5")
	if got := s.first("none.a.example"); got != "192.0.2.5" {
		t.Errorf("after an update of the target: got %s", got)
	}
}

package dns_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// signed runs the server of docs/dnssec.md with a key just made.
func signed(t testing.TB) (s *server, keyFile string) {
	t.Helper()
	need(t, "dnssec-keygen")
	s = prepare(t, "")
	argv := command(t, recipe(t, "dnssec.md", "keygen"), "dnssec-keygen")
	base := strings.TrimSpace(run(t, nil, "", append([]string{argv[0], "-q", "-K", s.dir}, argv[1:]...)...))
	// The zone of a test is filled by UPDATE, its apex too.
	write(t, s.dir, "db", fmt.Sprintf(soaLine, 1)+"ns1 60 A 127.0.0.1\n")
	s.start(adapt(t, recipe(t, "dnssec.md", "Corefile.dnssec"), "Kdyn.example.org.+013+NNNNN", filepath.Join(s.dir, base),
		"ns ns1.dyn.example.org 192.0.2.1", "seed db", "    dnssec {\n", "    tsig {\n    }\n    dnssec {\n"))
	return s, filepath.Join(s.dir, base+".key")
}

// insert puts records into dyn.example.org.
func (s *server) insert(records ...string) {
	s.t.Helper()
	m := new(dns.Msg)
	m.SetUpdate("dyn.example.org.")
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			s.t.Fatal(err)
		}
		m.Insert([]dns.RR{rr})
	}
	if rcode := s.send("tcp", fullKey, m); rcode != dns.RcodeSuccess {
		s.t.Fatalf("inserting %v: %s", records, dns.RcodeToString[rcode])
	}
}

// zoneToValidate has one of everything that a validator can be asked about.
func zoneToValidate(s *server) {
	s.insert(
		"host.dyn.example.org. 60 A 192.0.2.1", "host.dyn.example.org. 60 AAAA 2001:db8::1",
		"*.wild.dyn.example.org. 60 A 192.0.2.2", "*.wild.dyn.example.org. 60 MX 10 mail.example.net.",
		"deep.empty.dyn.example.org. 60 TXT x",
		"alias.dyn.example.org. 60 CNAME host.dyn.example.org.",
		"nowhere.dyn.example.org. 60 CNAME gone.dyn.example.org.",
		"away.dyn.example.org. 60 CNAME www.example.net.",
		"tree.dyn.example.org. 60 DNAME wild.dyn.example.org.",
		"multi.dyn.example.org. 60 A 192.0.2.3", "multi.dyn.example.org. 60 MX 10 mail.example.net.",
		`multi.dyn.example.org. 60 CAA 0 issue "ca.example.net"`, "multi.dyn.example.org. 60 HTTPS 1 . alpn=h2",
		`multi.dyn.example.org. 60 TYPE65280 \# 1 00`,
		`dyn.example.org. 60 CAA 0 issue "ca.example.net"`,
		"unsigned.dyn.example.org. 60 NS ns.unsigned.dyn.example.org.", "ns.unsigned.dyn.example.org. 60 A 127.0.0.1",
		"secure.dyn.example.org. 60 NS ns.secure.dyn.example.org.", "ns.secure.dyn.example.org. 60 A 127.0.0.1",
		"secure.dyn.example.org. 60 DS 12345 13 2 "+strings.Repeat("ab", 32),
		"cdnskey.dyn.example.org. 60 SSHFP 4 2 "+strings.Repeat("cd", 32),
	)
}

// questions are asked of every validator; want is the data, or "" for a denial.
var questions = []struct {
	what, name string
	qtype      uint16
	want       string
}{
	{"positive", "host", dns.TypeA, "192.0.2.1"},
	{"positive of another type", "host", dns.TypeAAAA, "2001:db8::1"},
	{"NODATA", "host", dns.TypeTXT, ""},
	{"NODATA of a type that the bitmap lacks anyway", "host", dns.TypeMX, ""},
	{"NXDOMAIN", "gone", dns.TypeA, ""},
	{"NXDOMAIN below a name", "below.host", dns.TypeA, ""},
	{"empty non-terminal", "empty", dns.TypeA, ""},
	{"wildcard", "any.wild", dns.TypeA, "192.0.2.2"},
	{"wildcard several labels down", "one.more.wild", dns.TypeA, "192.0.2.2"},
	{"wildcard NODATA", "none.wild", dns.TypeAAAA, ""},
	{"wildcard after its NODATA", "none.wild", dns.TypeMX, "10 mail.example.net."},
	{"alias", "alias", dns.TypeA, "192.0.2.1"},
	{"alias itself", "alias", dns.TypeCNAME, "host.dyn.example.org."},
	{"alias to NODATA", "alias", dns.TypeTXT, ""},
	{"alias to nothing", "nowhere", dns.TypeA, ""},
	{"DNAME", "x.tree", dns.TypeA, "192.0.2.2"},
	{"delegation without DS", "unsigned", dns.TypeDS, ""},
	{"delegation with DS", "secure", dns.TypeDS, "12345 13 2 " + strings.ToUpper(strings.Repeat("ab", 32))},
	{"apex SOA", "", dns.TypeSOA, "*"},
	{"apex NS", "", dns.TypeNS, "ns1.dyn.example.org."},
	{"apex NODATA", "", dns.TypeTXT, ""},
	{"apex type that the bitmap lacks, after the apex NODATA", "", dns.TypeCAA, `0 issue "ca.example.net"`},
	{"NODATA beside types that the bitmap lacks", "multi", dns.TypeTXT, ""},
	{"MX at that name", "multi", dns.TypeMX, "10 mail.example.net."},
	{"CAA at that name", "multi", dns.TypeCAA, `0 issue "ca.example.net"`},
	{"HTTPS at that name", "multi", dns.TypeHTTPS, `1 . alpn="h2"`},
	{"A at that name", "multi", dns.TypeA, "192.0.2.3"},
}

func below(name string) string {
	return strings.TrimPrefix(name+".dyn.example.org.", ".")
}

func TestUnboundValidates(t *testing.T) {
	need(t, "unbound")
	s, keyFile := signed(t)
	zoneToValidate(s)
	child := childServer(t)
	address := freeAddress(t)
	config := adapt(t, recipe(t, "dnssec.md", "unbound.conf"), "Kdyn.example.org.+013+NNNNN.key", keyFile, "192.0.2.1@53", "127.0.0.1@"+port(s.dns))
	config += fmt.Sprintf(`
stub-zone:
    name: unsigned.dyn.example.org
    stub-addr: 127.0.0.1@%[1]s
stub-zone:
    name: secure.dyn.example.org
    stub-addr: 127.0.0.1@%[1]s
server:
    interface: 127.0.0.1
    port: %s
    username: ""
    chroot: ""
    directory: %q
    pidfile: ""
    use-syslog: no
    do-not-query-localhost: no
    aggressive-nsec: yes
    module-config: "validator iterator"
    num-threads: 1
    val-log-level: 2
remote-control:
    control-enable: no
`, port(child), port(address), s.dir)
	daemon(t, s.dir, nil, "unbound", "-d", "-c", write(t, s.dir, "unbound.conf", config))
	ask := func(name string, qtype uint16) (*dns.Msg, error) {
		m := new(dns.Msg)
		m.SetQuestion(name, qtype)
		m.SetEdns0(1232, true)
		c := &dns.Client{Net: "tcp", Timeout: 10 * time.Second}
		r, _, err := c.Exchange(m, address)
		return r, err
	}
	until(t, 20*time.Second, "unbound's first answer", func() bool {
		_, err := ask("dyn.example.org.", dns.TypeNS)
		return err == nil
	})
	for _, q := range questions {
		r, err := ask(below(q.name), q.qtype)
		if err != nil {
			t.Errorf("%s: %v", q.what, err)
			continue
		}
		var got []string
		for _, rr := range r.Answer {
			if rr.Header().Rrtype == q.qtype {
				got = append(got, strings.TrimPrefix(rr.String(), rr.Header().String()))
			}
		}
		data := strings.Join(got, " ")
		if r.Rcode == dns.RcodeServerFailure || !r.AuthenticatedData || data != q.want && (q.want != "*" || data == "") {
			t.Errorf("%s: got %s, authenticated %v, %q; want %q", q.what, dns.RcodeToString[r.Rcode], r.AuthenticatedData, data, q.want)
		}
	}
	if r, err := ask("www.unsigned.dyn.example.org.", dns.TypeA); err != nil || len(r.Answer) != 1 || r.AuthenticatedData {
		t.Errorf("below an unsigned delegation: got %v, %v; want an answer that is not authenticated", r, err)
	}
	if r, err := ask("www.secure.dyn.example.org.", dns.TypeA); err != nil || r.Rcode != dns.RcodeServerFailure {
		t.Errorf("unsigned answer below a signed delegation: got %v, %v; want SERVFAIL", r, err)
	}
	// What is changed is signed at once.
	s.insert("fresh.dyn.example.org. 60 A 192.0.2.9")
	if r, err := ask("fresh.dyn.example.org.", dns.TypeA); err != nil || len(r.Answer) != 2 || !r.AuthenticatedData {
		t.Errorf("a name just made: got %v, %v", r, err)
	}
}

// childServer answers any A question with an address and signs nothing.
func childServer(t testing.TB) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		m.Authoritative = true
		if r.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: r.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(192, 0, 2, 4)}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = srv.ActivateAndServe() }()
	t.Cleanup(func() { _ = srv.Shutdown() })
	return pc.LocalAddr().String()
}

func TestDelvValidates(t *testing.T) {
	need(t, "delv")
	s, keyFile := signed(t)
	zoneToValidate(s)
	text, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	var key *dns.DNSKEY
	for line := range strings.Lines(string(text)) {
		if rr, err := dns.NewRR(line); err == nil && rr != nil {
			key = rr.(*dns.DNSKEY)
		}
	}
	anchor := write(t, s.dir, "anchor", fmt.Sprintf("trust-anchors { dyn.example.org. static-key %d %d %d %q; };\n", key.Flags, key.Protocol, key.Algorithm, key.PublicKey))
	for _, q := range questions {
		out, err := try(t, nil, "", "delv", "@127.0.0.1", "-p", port(s.dns), "-a", anchor, "+root=dyn.example.org", below(q.name), dns.TypeToString[q.qtype])
		if err != nil || !strings.Contains(out, "fully validated") || q.want != "*" && !strings.Contains(squeeze(out), squeeze(q.want)) {
			t.Errorf("%s: %v\n%s", q.what, err, out)
		}
	}
}

// squeeze drops the blanks that programs put into long data.
func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// TestDenialsListWhatIsThere looks at the answers themselves: a validator that
// keeps nothing would not notice what is wrong with them.
func TestDenialsListWhatIsThere(t *testing.T) {
	s, _ := signed(t)
	zoneToValidate(s)
	key, err := s.exchange("tcp", query("dyn.example.org.", dns.TypeDNSKEY))
	if err != nil || len(key.Answer) != 1 {
		t.Fatalf("asking for the key: %v, %v", key, err)
	}
	for _, test := range []struct {
		name     string
		qtype    uint16
		has, not []uint16
	}{
		{"host", dns.TypeSRV, []uint16{dns.TypeA, dns.TypeAAAA}, []uint16{dns.TypeSRV, dns.TypeMX, dns.TypeNS}},
		{"host", dns.TypeDS, []uint16{dns.TypeA}, []uint16{dns.TypeDS, dns.TypeNS, dns.TypeSOA}},
		{"gone", dns.TypeDS, nil, []uint16{dns.TypeDS, dns.TypeNS}},
		{"gone", dns.TypeA, nil, []uint16{dns.TypeA, dns.TypeMX, dns.TypeNS}},
		{"empty", dns.TypeA, nil, []uint16{dns.TypeA, dns.TypeNS}},
		{"multi", dns.TypeTXT, []uint16{dns.TypeMX, dns.TypeCAA, dns.TypeHTTPS, 65280}, []uint16{dns.TypeTXT}},
		{"MULTI", dns.TypeTXT, []uint16{dns.TypeMX, dns.TypeCAA, dns.TypeHTTPS, 65280}, []uint16{dns.TypeTXT}},
		{"multi", dns.TypeNSEC, []uint16{dns.TypeMX, dns.TypeCAA, dns.TypeHTTPS, 65280}, nil},
		{"x.wild", dns.TypeAAAA, []uint16{dns.TypeMX, dns.TypeA}, []uint16{dns.TypeAAAA}},
		{"unsigned", dns.TypeDS, []uint16{dns.TypeNS}, []uint16{dns.TypeDS, dns.TypeSOA}},
		{"", dns.TypeTXT, []uint16{dns.TypeNS, dns.TypeSOA, dns.TypeDNSKEY, dns.TypeCAA}, []uint16{dns.TypeTXT}},
	} {
		m := query(below(test.name), test.qtype)
		m.SetEdns0(1232, true)
		r, err := s.exchange("tcp", m)
		if err != nil {
			t.Fatal(err)
		}
		var nsec *dns.NSEC
		var sig *dns.RRSIG
		for _, rr := range append(r.Ns, r.Answer...) {
			switch v := rr.(type) {
			case *dns.NSEC:
				nsec = v
			case *dns.RRSIG:
				if v.TypeCovered == dns.TypeNSEC {
					sig = v
				}
			}
		}
		what := test.name + " " + dns.TypeToString[test.qtype]
		if nsec == nil || sig == nil {
			t.Errorf("%s: no signed NSEC in %v", what, r)
			continue
		}
		if err := sig.Verify(key.Answer[0].(*dns.DNSKEY), []dns.RR{nsec}); err != nil {
			t.Errorf("%s: the NSEC's signature: %v", what, err)
		}
		for _, typ := range test.has {
			if !slices.Contains(nsec.TypeBitMap, typ) {
				t.Errorf("%s: %v denies %s", what, nsec, dns.Type(typ))
			}
		}
		for _, typ := range test.not {
			if slices.Contains(nsec.TypeBitMap, typ) {
				t.Errorf("%s: %v does not deny %s", what, nsec, dns.Type(typ))
			}
		}
	}
}

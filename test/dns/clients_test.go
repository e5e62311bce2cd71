package dns_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// The clients of this file are not run: they want a cluster, a paid registry or a
// package that distributions have dropped. Their messages are sent as they build
// them, with the key of the recipe.

// message is one UPDATE in the words of nsupdate: prerequisites and updates.
type message struct {
	what  string
	zone  string
	lines []string
	want  int
}

// build makes the message. A line is "prereq nxdomain|yxdomain NAME",
// "prereq nxrrset|yxrrset NAME TYPE [DATA]", "add RR", "delete NAME [TYPE [DATA]]".
func (m message) build(t testing.TB) *dns.Msg {
	t.Helper()
	u := new(dns.Msg)
	u.SetUpdate(m.zone)
	rr := func(text string) []dns.RR {
		rr, err := dns.NewRR(text)
		if err != nil || rr == nil {
			t.Fatalf("%s: %q: %v", m.what, text, err)
		}
		return []dns.RR{rr}
	}
	bare := func(name, typ string) []dns.RR {
		return []dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: name, Rrtype: dns.StringToType[typ]}}}
	}
	for _, line := range m.lines {
		f := strings.Fields(line)
		switch {
		case f[0] == "prereq" && f[1] == "nxdomain":
			u.NameNotUsed(bare(f[2], "ANY"))
		case f[0] == "prereq" && f[1] == "yxdomain":
			u.NameUsed(bare(f[2], "ANY"))
		case f[0] == "prereq" && f[1] == "nxrrset":
			u.RRsetNotUsed(bare(f[2], f[3]))
		case f[0] == "prereq" && len(f) == 4:
			u.RRsetUsed(bare(f[2], f[3]))
		case f[0] == "prereq":
			u.Used(rr(f[2] + " 0 " + strings.Join(f[3:], " ")))
		case f[0] == "add":
			u.Insert(rr(strings.Join(f[1:], " ")))
		case f[0] == "delete" && len(f) == 2:
			u.RemoveName(bare(f[1], "ANY"))
		case f[0] == "delete" && len(f) == 3:
			u.RemoveRRset(bare(f[1], f[2]))
		case f[0] == "delete":
			u.Remove(rr(f[1] + " 0 " + strings.Join(f[2:], " ")))
		default:
			t.Fatalf("%s: %q", m.what, line)
		}
	}
	return u
}

// replay sends messages in order and compares their answers.
func replay(t testing.TB, s *server, network, key string, messages []message) {
	t.Helper()
	for _, m := range messages {
		if m.zone == "" {
			m.zone = "dyn.example.org."
		}
		if got := s.send(network, key, m.build(t)); got != m.want {
			t.Errorf("%s: got %s, want %s", m.what, dns.RcodeToString[got], dns.RcodeToString[m.want])
		}
	}
}

// TestDhcpd sends what ISC dhcpd 4.4 does with ddns-update-style standard
// (RFC 4703): server/ddns.c, common/dns.c.
func TestDhcpd(t *testing.T) {
	for _, line := range []string{"ddns-update-style standard;", `key "dhcp.example.org" {`, "algorithm hmac-sha256;", `zone dyn.example.org. { primary 192.0.2.1; key "dhcp.example.org"; }`} {
		if !strings.Contains(recipe(t, "dns-update.md", "dhcpd.conf"), line) {
			t.Errorf("the recipe has no %q", line)
		}
	}
	s := dhcpPrimary(t)
	const host, id, other = "laptop.dyn.example.org.", "DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=", "DHCID AAIBMmFjOTc1NzMyMTk0ZWE1ZTBhN2MzN2M4MzE2NTFiM2M="
	const reverse, arpa = "7.2.0.192.in-addr.arpa.", "2.0.192.in-addr.arpa."
	replay(t, s, "udp", "dhcp.example.org.", []message{
		{what: "a new client", lines: []string{"prereq nxdomain " + host, "add " + host + " 300 A 192.0.2.7", "add " + host + " 300 " + id}},
		{what: "its PTR", zone: arpa, lines: []string{"delete " + reverse + " PTR", "add " + reverse + " 300 PTR " + host}},
		{what: "the same client, optimistically", lines: []string{"prereq nxdomain " + host, "add " + host + " 300 A 192.0.2.8", "add " + host + " 300 " + id}, want: dns.RcodeYXDomain},
		{what: "the same client, with its identity", lines: []string{"prereq yxrrset " + host + " " + id, "delete " + host + " A", "add " + host + " 300 A 192.0.2.8"}},
		{what: "another client", lines: []string{"prereq yxrrset " + host + " " + other, "delete " + host + " A", "add " + host + " 300 A 192.0.2.9"}, want: dns.RcodeNXRrset},
		{what: "the end of the lease: the address", lines: []string{"prereq yxrrset " + host + " " + id, "delete " + host + " A 192.0.2.8"}},
		{what: "the end of the lease: the identity, if no address is left", lines: []string{"prereq yxrrset " + host + " " + id, "prereq nxrrset " + host + " A", "prereq nxrrset " + host + " AAAA", "delete " + host + " " + id}},
		{what: "the end of the lease: the PTR", zone: arpa, lines: []string{"delete " + reverse + " PTR"}},
	})
	for _, name := range []string{host, reverse} {
		if r, err := s.exchange("udp", query(name, dns.TypeA)); err != nil || r.Rcode != dns.RcodeNameError {
			t.Errorf("%s is still there: %v, %v", name, r, err)
		}
	}
}

// TestCertManager sends what cert-manager's rfc2136 solver does
// (pkg/issuer/acme/dns/rfc2136): TTL 60, over UDP, removed by value.
func TestCertManager(t *testing.T) {
	issuer := recipe(t, "dns-update.md", "issuer.yaml")
	for _, line := range []string{"tsigKeyName: acme.example.org\n", "tsigAlgorithm: HMACSHA256\n", "nameserver: 192.0.2.1:53\n"} {
		if !strings.Contains(issuer, line) {
			t.Errorf("the recipe has no %q", line)
		}
	}
	s := primary(t)
	const name = "_acme-challenge.dyn.example.org."
	replay(t, s, "udp", "acme.example.org.", []message{
		{what: "apex", lines: []string{"add " + name + " 60 TXT \"apex\""}},
		{what: "wildcard", lines: []string{"add " + name + " 60 TXT \"wildcard\""}},
	})
	if got := s.data(name, dns.TypeTXT); got != `"apex" "wildcard"` {
		t.Errorf("got %s", got)
	}
	replay(t, s, "udp", "acme.example.org.", []message{
		{what: "clean up", lines: []string{"delete " + name + " TXT \"apex\""}},
		{what: "clean up the other", lines: []string{"delete " + name + " TXT \"wildcard\""}},
		{what: "clean up once more", lines: []string{"delete " + name + " TXT \"wildcard\""}},
		{what: "a look at a name that is not granted", lines: []string{"prereq nxdomain ns1.dyn.example.org.", "add " + name + " 60 TXT \"x\""}, want: dns.RcodeRefused},
		{what: "a name that is not granted", lines: []string{"add www.dyn.example.org. 60 TXT \"x\""}, want: dns.RcodeRefused},
	})
	if got := s.data(name, dns.TypeTXT); got != "" {
		t.Errorf("left: %s", got)
	}
}

// TestExternalDNS sends what external-dns does (provider/rfc2136): it lists the
// zone by a signed AXFR, and batches deletions by value with additions.
func TestExternalDNS(t *testing.T) {
	args := recipe(t, "dns-update.md", "external-dns.yaml")
	for _, line := range []string{"--rfc2136-tsig-keyname=kubernetes.example.org\n", "--rfc2136-tsig-secret-alg=hmac-sha256\n", "--rfc2136-tsig-axfr\n", "--rfc2136-tsig-secret=" + secret + "\n"} {
		if !strings.Contains(args, line) {
			t.Errorf("the recipe has no %q", line)
		}
	}
	s := primary(t)
	const key = "kubernetes.example.org."
	list := func() string {
		m := new(dns.Msg)
		m.SetAxfr("dyn.example.org.")
		m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
		tr := &dns.Transfer{TsigSecret: map[string]string{key: secret}}
		envelopes, err := tr.In(m, s.dns)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for e := range envelopes {
			if e.Error != nil {
				t.Fatal(e.Error)
			}
			for _, rr := range e.RR {
				if strings.HasSuffix(rr.Header().Name, ".k8s.dyn.example.org.") {
					out = append(out, strings.Join(strings.Fields(rr.String()), " "))
				}
			}
		}
		return strings.Join(sorted(out), "\n")
	}
	replay(t, s, "tcp", key, []message{
		{what: "an ingress with its owner's mark", lines: []string{
			"add app.k8s.dyn.example.org. 300 A 192.0.2.10",
			"add app.k8s.dyn.example.org. 300 A 192.0.2.11",
			`add a-app.k8s.dyn.example.org. 300 TXT "heritage=external-dns,external-dns/owner=cluster-1"`,
			"add *.k8s.dyn.example.org. 300 CNAME app.k8s.dyn.example.org.",
		}},
		{what: "a change of one address", lines: []string{
			"delete app.k8s.dyn.example.org. A 192.0.2.10",
			"delete app.k8s.dyn.example.org. A 192.0.2.11",
			"add app.k8s.dyn.example.org. 300 A 192.0.2.11",
			"add app.k8s.dyn.example.org. 300 A 192.0.2.12",
		}},
		{what: "a name beside the cluster's", lines: []string{"add app.dyn.example.org. 300 A 192.0.2.10"}, want: dns.RcodeRefused},
	})
	want := `*.k8s.dyn.example.org. 300 IN CNAME app.k8s.dyn.example.org.
a-app.k8s.dyn.example.org. 300 IN TXT "heritage=external-dns,external-dns/owner=cluster-1"
app.k8s.dyn.example.org. 300 IN A 192.0.2.11
app.k8s.dyn.example.org. 300 IN A 192.0.2.12`
	if got := list(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	replay(t, s, "tcp", key, []message{{what: "the ingress is gone", lines: []string{
		"delete app.k8s.dyn.example.org. A 192.0.2.11", "delete app.k8s.dyn.example.org. A 192.0.2.12",
		`delete a-app.k8s.dyn.example.org. TXT "heritage=external-dns,external-dns/owner=cluster-1"`,
		"delete *.k8s.dyn.example.org. CNAME app.k8s.dyn.example.org.",
	}}})
	if got := list(); got != "" {
		t.Errorf("left:\n%s", got)
	}
}

// TestTerraform sends what the provider "dns" does (internal/provider): it reads by
// query, removes and inserts record by record, and removes the RRset at the end.
func TestTerraform(t *testing.T) {
	hcl := recipe(t, "dns-update.md", "main.tf")
	for _, line := range []string{`key_name      = "terraform.example.org."`, `key_algorithm = "hmac-sha256"`, `name      = "www"`, `ttl       = 300`} {
		if !strings.Contains(hcl, line) {
			t.Errorf("the recipe has no %q", line)
		}
	}
	s := primary(t)
	const name, key = "www.dyn.example.org.", "terraform.example.org."
	replay(t, s, "udp", key, []message{
		{what: "create", lines: []string{"add " + name + " 300 A 192.0.2.80", "add " + name + " 300 A 192.0.2.81"}},
		{what: "update", lines: []string{"delete " + name + " A 192.0.2.80", "add " + name + " 300 A 192.0.2.82"}},
	})
	r, err := s.exchange("udp", query(name, dns.TypeA))
	if err != nil || len(r.Answer) != 2 || r.Answer[0].Header().Ttl != 300 || s.data(name, dns.TypeA) != "192.0.2.81 192.0.2.82" {
		t.Errorf("read: got %v, %v", r, err)
	}
	replay(t, s, "udp", key, []message{{what: "destroy", lines: []string{"delete " + name + " A"}}})
	if r, err := s.exchange("udp", query(name, dns.TypeA)); err != nil || r.Rcode != dns.RcodeNameError {
		t.Errorf("after destroy: got %v, %v", r, err)
	}
}

// TestWhereServersDiffer holds the table of docs/dns-update.md to what is done.
func TestWhereServersDiffer(t *testing.T) {
	s := prepare(t, "")
	write(t, s.dir, "db", fmt.Sprintf(soaLine, 1)+"@ 3600 NS ns2.example.net.\nns1 60 A 127.0.0.1\n")
	s.start("dyn.example.org {\n    tsig {\n    }\n    ddns {\n        seed db\n        policy policy\n    }\n    errors\n}\n")
	both := func(what string, lines []string, check func() string, want string) {
		t.Helper()
		replay(t, s, "tcp", fullKey, []message{{what: what, lines: lines}})
		if got := check(); got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	at := func(name string, qtype uint16) func() string {
		return func() string { return s.data(name+"dyn.example.org.", qtype) }
	}
	both("CNAME beside other data in one update", []string{"add c.dyn.example.org. 60 A 192.0.2.1", "add c.dyn.example.org. 60 CNAME x.example.net."}, at("c.", dns.TypeCNAME), "")
	both("other data beside a CNAME in one update", []string{"add d.dyn.example.org. 60 CNAME x.example.net.", "add d.dyn.example.org. 60 A 192.0.2.1"}, at("d.", dns.TypeCNAME), "x.example.net.")
	both("all NS of the apex, one by one", []string{"delete dyn.example.org. NS ns1.dyn.example.org.", "delete dyn.example.org. NS ns2.example.net."}, at("", dns.TypeNS), "ns2.example.net.")
	both("all NS of the apex at once", []string{"delete dyn.example.org. NS"}, at("", dns.TypeNS), "ns2.example.net.")
	both("NS replaced by one without an address", []string{"add dyn.example.org. 60 NS ns9.dyn.example.org.", "delete dyn.example.org. NS ns2.example.net."}, at("", dns.TypeNS), "ns9.dyn.example.org.")
	ttls := func() string {
		r, err := s.exchange("tcp", query("t.dyn.example.org.", dns.TypeA))
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, rr := range r.Answer {
			out = append(out, fmt.Sprint(rr.Header().Ttl))
		}
		return strings.Join(out, " ")
	}
	both("two addresses", []string{"add t.dyn.example.org. 60 A 192.0.2.1", "add t.dyn.example.org. 60 A 192.0.2.2"}, ttls, "60 60")
	both("one of them with another TTL", []string{"add t.dyn.example.org. 90 A 192.0.2.1"}, ttls, "90 90")
	both("a name in upper case", []string{"add UPPER.Dyn.Example.ORG. 60 A 192.0.2.1"}, func() string {
		r, err := s.exchange("tcp", query("uPPer.dyn.example.org.", dns.TypeA))
		if err != nil || len(r.Answer) != 1 {
			t.Fatalf("got %v, %v", r, err)
		}
		return r.Answer[0].Header().Name
	}, "uPPer.dyn.example.org.")

	m := message{lines: []string{"add aa.dyn.example.org. 60 A 192.0.2.1"}, zone: "dyn.example.org."}.build(t)
	m.SetTsig(fullKey, dns.HmacSHA256, 300, time.Now().Unix())
	c := &dns.Client{Net: "tcp", TsigSecret: map[string]string{fullKey: secret}}
	if r, _, err := c.Exchange(m, s.dns); err != nil || r.Authoritative || r.Rcode != dns.RcodeSuccess {
		t.Errorf("the reply to an UPDATE: %v, %v", r, err)
	}
	replay(t, s, "tcp", fullKey, []message{
		{what: "RRSIG", lines: []string{"add s.dyn.example.org. 60 RRSIG A 13 4 60 20300101000000 20200101000000 1 dyn.example.org. AAAA"}, want: dns.RcodeRefused},
		{what: "NSEC3PARAM", lines: []string{"add dyn.example.org. 60 NSEC3PARAM 1 0 0 -"}, want: dns.RcodeRefused},
	})
	before := s.serial("dyn.example.org.")
	both("a smaller SOA serial", []string{"add dyn.example.org. 3600 SOA ns9.dyn.example.org. h.example.org. 5 1 1 1 1"}, func() string { return fmt.Sprint(s.serial("dyn.example.org.") == before) }, "true")
	both("a greater SOA serial", []string{fmt.Sprintf("add dyn.example.org. 3600 SOA ns9.dyn.example.org. h.example.org. %d 3600 600 86400 60", before+1000)}, func() string { return fmt.Sprint(s.serial("dyn.example.org.") - before) }, "1000")
}

package dns_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// primary runs the server of docs/dns-update.md.
func primary(t testing.TB) *server {
	t.Helper()
	s := prepare(t, strings.ReplaceAll(recipe(t, "dns-update.md", "policy"), "192.0.2.80", "127.0.0.1"))
	text := corefile(t, "dns-update.md", 0)
	s.start(adapt(t, text, "192.0.2.1", "127.0.0.1", "to 192.0.2.80", "to 127.0.0.1"))
	return s
}

func (s *server) keyFile(name string) string {
	return write(s.t, s.dir, name+"key", fmt.Sprintf("key %q {\n\talgorithm hmac-sha256;\n\tsecret %q;\n};\n", name, secret))
}

func TestNsupdateRecipe(t *testing.T) {
	need(t, "nsupdate")
	s := primary(t)
	write(t, s.dir, "laptop.key", recipe(t, "dns-update.md", "laptop.key"))
	write(t, s.dir, "laptop.nsupdate", adapt(t, recipe(t, "dns-update.md", "laptop.nsupdate"), "server 192.0.2.1", "server 127.0.0.1 "+port(s.dns)))
	argv := command(t, recipe(t, "dns-update.md", "nsupdate"), "nsupdate")
	for i := range argv[1:] {
		if strings.HasPrefix(argv[i+1], "laptop.") {
			argv[i+1] = filepath.Join(s.dir, argv[i+1])
		}
	}
	run(t, nil, "", argv...)
	if got := s.data("laptop.dyn.example.org.", dns.TypeA); got != "192.0.2.7" {
		t.Errorf("got %q", got)
	}
}

// TestNsupdate drives nsupdate and knsupdate over UDP and TCP.
func TestNsupdate(t *testing.T) {
	need(t, "nsupdate", "knsupdate")
	s := primary(t)
	key, inline := s.keyFile(fullKey), "hmac-sha256:"+fullKey+":"+secret
	for _, client := range [][]string{{"nsupdate", "-k", key}, {"nsupdate", "-v", "-k", key}, {"knsupdate", "-y", inline}, {"knsupdate", "-v", "-y", inline}} {
		t.Run(strings.Join(client[:len(client)-1], " "), func(t *testing.T) {
			send := func(lines string) (string, error) {
				t.Helper()
				return try(t, nil, fmt.Sprintf("server 127.0.0.1 %s\nzone dyn.example.org\n%s\nsend\n", port(s.dns), lines), client...)
			}
			must := func(lines string) {
				t.Helper()
				if out, err := send(lines); err != nil || strings.Contains(out, "failed") {
					t.Fatalf("%s: %v\n%s", lines, err, out)
				}
			}
			refused := func(lines, rcode string) {
				t.Helper()
				if out, _ := send(lines); !strings.Contains(out, rcode) {
					t.Errorf("%s: got %q, want %s", lines, out, rcode)
				}
			}
			must("update delete h.dyn.example.org")
			must("prereq nxdomain h.dyn.example.org\nupdate add h.dyn.example.org 60 A 192.0.2.1\nupdate add h.dyn.example.org 60 AAAA 2001:db8::1")
			refused("prereq nxdomain h.dyn.example.org\nupdate add h.dyn.example.org 60 A 192.0.2.2", "YXDOMAIN")
			refused("prereq yxdomain none.dyn.example.org\nupdate add h.dyn.example.org 60 A 192.0.2.2", "NXDOMAIN")
			refused("prereq nxrrset h.dyn.example.org A\nupdate add h.dyn.example.org 60 A 192.0.2.2", "YXRRSET")
			refused("prereq yxrrset h.dyn.example.org TXT\nupdate add h.dyn.example.org 60 A 192.0.2.2", "NXRRSET")
			refused("prereq yxrrset h.dyn.example.org A 192.0.2.9\nupdate add h.dyn.example.org 60 A 192.0.2.2", "NXRRSET")
			must("prereq yxrrset h.dyn.example.org A 192.0.2.1\nupdate delete h.dyn.example.org A\nupdate add h.dyn.example.org 60 A 192.0.2.2")
			if got := s.data("h.dyn.example.org.", dns.TypeA); got != "192.0.2.2" {
				t.Errorf("got %q", got)
			}
			if got := s.data("h.dyn.example.org.", dns.TypeAAAA); got != "2001:db8::1" {
				t.Errorf("got %q", got)
			}
			refused("update add h.example.net 60 A 192.0.2.2", "NOTZONE")
			refused("update add ns1.dyn.example.org 60 A 192.0.2.2", "REFUSED") // static
			must("update delete h.dyn.example.org A 192.0.2.2\nupdate delete h.dyn.example.org AAAA")
			if r, err := s.exchange("udp", query("h.dyn.example.org.", dns.TypeA)); err != nil || r.Rcode != dns.RcodeNameError {
				t.Errorf("after deleting: got %v, %v", r, err)
			}
		})
	}
	t.Run("more than 512 octets", func(t *testing.T) {
		var lines strings.Builder
		for i := range 30 {
			fmt.Fprintf(&lines, "update add big%d.dyn.example.org 60 TXT %s\n", i, strings.Repeat("x", 60))
		}
		run(t, nil, fmt.Sprintf("server 127.0.0.1 %s\nzone dyn.example.org\n%ssend\n", port(s.dns), &lines), "nsupdate", "-k", key)
		if got := s.data("big29.dyn.example.org.", dns.TypeTXT); got == "" {
			t.Error("the last record is not there")
		}
	})
	t.Run("every type", func(t *testing.T) {
		var lines strings.Builder
		for i, r := range everyType {
			fmt.Fprintf(&lines, "update add t%d.dyn.example.org 60 %s\n", i, r)
		}
		run(t, nil, fmt.Sprintf("server 127.0.0.1 %s\nzone dyn.example.org\n%ssend\n", port(s.dns), &lines), "nsupdate", "-v", "-k", key)
		for i, r := range everyType {
			typ, _, _ := strings.Cut(r, " ")
			number, ok := dns.StringToType[typ]
			if !ok {
				number = 65280
			}
			if got := s.data(fmt.Sprintf("t%d.dyn.example.org.", i), number); got == "" {
				t.Errorf("%s is not there", r)
			}
		}
	})
}

// everyType is what people keep in zones that change.
var everyType = []string{
	`A 192.0.2.1`, `AAAA 2001:db8::1`, `TXT "a b" c`, `MX 10 mail.example.net.`, `CNAME www.example.net.`, `DNAME example.net.`,
	`SRV 1 2 443 web.example.net.`, `CAA 0 issue "ca.example.net"`, `HTTPS 1 . alpn=h2 ipv4hint=192.0.2.1`, `SVCB 1 svc.example.net.`,
	`SSHFP 4 2 ` + strings.Repeat("ab", 32), `TLSA 3 1 1 ` + strings.Repeat("cd", 32), `DHCID AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA=`,
	`DS 1 13 2 ` + strings.Repeat("ef", 32), `CDS 1 13 2 ` + strings.Repeat("ef", 32), `CDNSKEY 257 3 13 AAAA`, `PTR host.example.net.`,
	`NAPTR 1 1 "u" "E2U+sip" "!^.*$!sip:a@example.net!" .`, `LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m`, `HINFO a b`,
	`URI 10 1 "https://example.net/"`, `TYPE65280 \# 3 010203`,
}

// TestNsupdateFindsTheZone gives nsupdate nothing but a name: it asks for SOAs, of
// names that do not exist too, until it knows the zone.
func TestNsupdateFindsTheZone(t *testing.T) {
	need(t, "nsupdate")
	s := primary(t)
	key := s.keyFile(fullKey)
	for _, name := range []string{"found.dyn.example.org", "deep.under.found.dyn.example.org"} {
		run(t, nil, fmt.Sprintf("server 127.0.0.1 %s\nupdate add %s 60 A 192.0.2.1\nsend\n", port(s.dns), name), "nsupdate", "-k", key)
		if got := s.data(name, dns.TypeA); got != "192.0.2.1" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestLogSaysWhatIsWrong sends what people get wrong and looks for the sentence
// that tells them.
func TestLogSaysWhatIsWrong(t *testing.T) {
	need(t, "nsupdate")
	s := primary(t)
	try := func(y, want string) {
		t.Helper()
		argv := []string{"nsupdate", "-t", "2", "-u", "1", "-r", "0"}
		if y != "" {
			argv = append(argv, "-y", y)
		}
		if out, err := try(t, nil, fmt.Sprintf("server 127.0.0.1 %s\nzone dyn.example.org\nupdate add x.dyn.example.org 60 A 192.0.2.1\nsend\n", port(s.dns)), argv...); err == nil {
			t.Errorf("%s: nsupdate succeeded: %s", y, out)
		}
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log of %q does not say %q", y, want)
		}
	}
	try("", "it has no TSIG: sign it with a key of the tsig plugin; a message of more than 512 octets needs TCP")
	try("hmac-sha256:nobody.example.org:"+secret, "no tsig plugin of this listener has such a key")
	try("hmac-sha256:laptop.dyn.example.org:AAAA", "the secrets differ or the message was changed on its way")
	try("hmac-md5:laptop.dyn.example.org:"+secret, "the client uses HMAC-MD5, which is not supported: set the client's key to hmac-sha256")
	try("hmac-sha256:laptop.dyn.example.org:"+secret, "A of x.dyn.example.org. is not permitted") // x.dyn.example.org
}

func TestDigAndKdigTransfer(t *testing.T) {
	need(t, "dig", "kdig")
	s := primary(t)
	first := s.serial("dyn.example.org.")
	// Enough that a difference is smaller than the zone.
	for i := range 30 {
		if err := s.publish(fmt.Sprintf("h%d.dyn.example.org", i), "192.0.2.1", "2001:db8::1"); err != nil {
			t.Fatal(err)
		}
	}
	from := s.serial("dyn.example.org.")
	if err := s.publish("last.dyn.example.org", "192.0.2.9"); err != nil {
		t.Fatal(err)
	}
	key := "hmac-sha256:kubernetes.example.org:" + secret
	for _, client := range []string{"dig", "kdig"} {
		args := func(query string, signed bool) []string {
			argv := []string{client, "@127.0.0.1", "-p", port(s.dns), "+tcp", "dyn.example.org"}
			if signed {
				argv = append(argv, "-y", key)
			}
			return append(argv, "-t", query)
		}
		whole := run(t, nil, "", args("AXFR", true)...)
		if !strings.Contains(whole, "last.dyn.example.org.") || strings.Count(whole, "SOA") < 2 {
			t.Errorf("%s AXFR:\n%s", client, whole)
		}
		difference := run(t, nil, "", args(fmt.Sprintf("IXFR=%d", from), true)...)
		if !strings.Contains(difference, "last.dyn.example.org.") || strings.Contains(difference, "h1.dyn") || strings.Count(difference, "SOA") < 4 {
			t.Errorf("%s IXFR:\n%s", client, difference)
		}
		if out := run(t, nil, "", args(fmt.Sprintf("IXFR=%d", first-100), true)...); !strings.Contains(out, "h1.dyn") {
			t.Errorf("%s IXFR from before the journal:\n%s", client, out)
		}
		if out, _ := try(t, nil, "", args("AXFR", false)...); strings.Contains(out, "h1.dyn") {
			t.Errorf("%s AXFR without TSIG, which is required:\n%s", client, out)
		}
	}
}

package ddns

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

func init() { clog.Discard() }

func TestParse(t *testing.T) {
	tests := []struct {
		name, input string
		want        string // part of the error; empty: accepted
	}{
		{"the smallest stanza", "ddns example.org {\n ns ns1.example.org 192.0.2.1\n}", ""},
		{"every property", `ddns dyn.example.org lab.example.org {
			file db.dyn dyn.example.org
			seed db.lab lab.example.org
			ns ns1.example.net
			store bolt data/ddns.db
			policy policy
			http 127.0.0.1:8053 tls cert.pem key.pem ca.pem
			grpc unix:///run/ddns/grpc.sock
			hooks unix:///run/ddns/hookd.sock
			ttl 60s 5 1h
			source_ip proxy
			addresses public
			trusted_proxies 192.0.2.0/24 2001:db8::1
			limit names 1000
			limit records 10
			limit journal 100
			limit rate 10/1m
			limit failures off
			fallthrough
		}`, ""},
		{"zones from the server block", "ddns {\n ns ns1.example.org\n}", ""},
		{"no apex", "ddns example.org", "zone 'example.org.' has no apex"},
		{"the root zone", "ddns . {\n ns a.\n}", "the root zone"},
		{"the block on one line", "ddns example.org { ns ns1.example.org }", "over several lines"},
		{"an unknown property", "ddns example.org {\n zonefile x\n}", "unknown property 'zonefile'"},
		{"a property given twice", "ddns example.org {\n ns a.\n store memory\n store memory\n}", "property 'store' given twice"},
		{"the stanza given twice", "ddns example.org {\n ns a.\n}\nddns example.net {\n ns a.\n}", "this plugin can only be used once per Server Block"},
		{"file and seed for one zone", "ddns example.org {\n file a\n seed b\n}", "both 'file' and 'seed'"},
		{"a file for one of several zones unnamed", "ddns a.example b.example {\n file x\n}", "say which one"},
		{"a file for a zone of somebody else", "ddns a.example {\n file x b.example\n}", "'b.example' is not a zone of this stanza"},
		{"a file given twice for a zone", "ddns a.example {\n file x\n file y\n}", "given twice"},
		{"a name server's address that is none", "ddns a.example {\n ns ns1.a.example 192.0.2\n}", "'192.0.2' is not an IP address"},
		{"a name server elsewhere with an address", "ddns a.example {\n ns ns1.b.example 192.0.2.1\n}", "in none of the zones"},
		{"an unknown store", "ddns a.example {\n ns a.\n store redis x\n}", "unknown store 'redis'"},
		{"bolt without a file", "ddns a.example {\n ns a.\n store bolt\n}", "Wrong argument count"},
		{"http without a port", "ddns a.example {\n ns a.\n http 127.0.0.1\n}", "expected HOST:PORT"},
		{"http with half a certificate", "ddns a.example {\n ns a.\n http :8053 tls cert.pem\n}", "tls CERT KEY [CA]"},
		{"grpc over TCP without mutual TLS", "ddns a.example {\n ns a.\n grpc 127.0.0.1:9053 tls c k\n}", "mutual TLS"},
		{"grpc on a unix socket with TLS", "ddns a.example {\n ns a.\n grpc unix:///run/g.sock tls c k ca\n}", "a unix socket has no TLS"},
		{"hooks sent nowhere", "ddns a.example {\n ns a.\n hooks 127.0.0.1:1\n}", "expected 'local' or unix:///PATH"},
		{"a default TTL out of its bounds", "ddns a.example {\n ns a.\n ttl 60 120 3600\n}", "not between"},
		{"a TTL of half a second", "ddns a.example {\n ns a.\n ttl 500ms\n}", "whole seconds"},
		{"an unknown source_ip", "ddns a.example {\n ns a.\n source_ip all\n}", "expected client, proxy or off"},
		{"an unknown address policy", "ddns a.example {\n ns a.\n addresses private\n}", "expected any or public"},
		{"a proxy that is no address", "ddns a.example {\n ns a.\n trusted_proxies nginx\n}", "'nginx'"},
		{"a proxy as an IPv4-mapped address", "ddns a.example {\n ns a.\n trusted_proxies ::ffff:192.0.2.0/120\n}", "write the IPv4 address as such"},
		{"an unknown limit", "ddns a.example {\n ns a.\n limit zones 5\n}", "unknown limit 'zones'"},
		{"a limit given twice", "ddns a.example {\n ns a.\n limit names 5\n limit names 6\n}", "limit names given twice"},
		{"a limit of nothing", "ddns a.example {\n ns a.\n limit names 0\n}", "from 1 to"},
		{"a rate without a period", "ddns a.example {\n ns a.\n limit rate 10\n}", "COUNT/DURATION"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := caddy.NewTestController("dns", test.input)
			c.ServerBlockKeys = []string{"example.org."}
			_, err := parse(c)
			switch {
			case test.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case test.want != "" && err == nil:
				t.Fatalf("accepted, want an error with %q", test.want)
			case test.want != "" && !strings.Contains(err.Error(), test.want):
				t.Errorf("got error %q, want one with %q", err, test.want)
			}
		})
	}
}

func TestParseMakesPathsAbsolute(t *testing.T) {
	c := caddy.NewTestController("dns", "ddns example.org {\n file db\n store bolt d.db\n policy p\n}")
	cfg, err := parse(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{cfg.files["\x07example\x03org\x00"], cfg.store.path, cfg.policy} {
		if !filepath.IsAbs(p) {
			t.Errorf("got path %q, want an absolute one", p)
		}
	}
}

package ddns

import (
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

// FuzzStanza throws text at what reads a stanza of the Corefile: a configuration that
// names its zones and is within its bounds, or an error, never a panic.
func FuzzStanza(f *testing.F) {
	for _, seed := range []string{
		"example.org {\n ns ns1.example.org 192.0.2.1\n}",
		"dyn.example.org lab.example.org {\n file a dyn.example.org\n seed b lab.example.org\n ns ns1.example.net\n store bolt d.db\n policy p\n fallthrough lab.example.org\n}",
		"{\n ns a.\n http 127.0.0.1:8053 tls c k ca\n grpc unix:///run/g.sock\n hooks unix:///run/h.sock\n}",
		"a.example {\n ns a.\n ttl 60s 5 1h\n source_ip proxy\n addresses public\n trusted_proxies 192.0.2.0/24 ::1\n}",
		"a.example {\n ns a.\n limit names 1\n limit records 10\n limit journal 100\n limit rate 10/1m\n limit failures off\n}",
		"2001:db8::/32 192.0.2.0/25 {\n ns a.\n store memory\n http off\n}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "import") || strings.Contains(text, "{$") || strings.Contains(text, "{%") {
			return // would read files and the environment of who runs it
		}
		c := caddy.NewTestController("dns", "ddns "+text)
		c.ServerBlockKeys = []string{"example.org."}
		cfg, err := parse(c)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error that says nothing")
			}
			return
		}
		if len(cfg.zones) == 0 {
			t.Error("accepted without a zone")
		}
		if d := cfg.ttl; d.least > d.standard || d.standard > d.most {
			t.Errorf("accepted TTLs %+v", d)
		}
		for origin := range cfg.files {
			if _, both := cfg.seeds[origin]; both {
				t.Errorf("%s has a file and a seed", origin)
			}
		}
	})
}

package ddns_test

import (
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

// TestOneZoneIsNotDefinedInTwoWays has two stanzas with one store: each would take
// the other's records out of the zone, at each start and each reload.
func TestOneZoneIsNotDefinedInTwoWays(t *testing.T) {
	const text = "@ 3600 SOA ns1 hostmaster 1 3600 600 86400 60\n@ 3600 NS ns1\nns1 3600 A 127.0.0.1\n"
	for _, test := range []struct{ name, one, two string }{
		{"two files", "file a.zone", "file b.zone"},
		{"a file and a name server", "file a.zone", "ns ns1.dyn.example.org 127.0.0.1"},
		{"two name servers", "ns ns1.dyn.example.org 127.0.0.1", "ns ns2.dyn.example.org 127.0.0.1"},
		{"a file and a seed", "file a.zone", "seed a.zone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := blank(t, "dyn.example.org")
			s.write("a.zone", text)
			s.write("b.zone", text)
			block := func(apex string) string {
				return strings.NewReplacer("DNS", port(freeAddress(t)), "DIR", s.dir, "APEX", apex).Replace(
					"dyn.example.org:DNS {\n bind 127.0.0.1\n root DIR\n ddns {\n APEX\n http off\n }\n}\n")
			}
			i, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(block(test.one) + block(test.two)), Filepath: "Corefile", ServerTypeName: "dns"})
			if err == nil {
				i.ShutdownCallbacks()
				_ = i.Stop()
				t.Fatal("it starts")
			}
			if !strings.Contains(err.Error(), "zone dyn.example.org.") || !strings.Contains(err.Error(), "ddns.db") {
				t.Errorf("got %v, want an error that names the zone and the store", err)
			}
		})
	}
}

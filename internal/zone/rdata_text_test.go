package zone_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestRdataTextIsPrintable(t *testing.T) {
	tests := []struct {
		name string
		typ  uint16
		data string
		want string
	}{
		{"an address", dns.TypeA, "\xc0\x00\x02\x01", "192.0.2.1"},
		{"a text with a line end", dns.TypeTXT, "\x02a\n", `"a\010"`},
		{"NULL with a line end and a NUL", dns.TypeNULL, "a\n\x00", `\# 3 610a00`},
		{"NULL without data", dns.TypeNULL, "", `\# 0`},
		{"a type without a format", 65280, "\n", `\# 1 0a`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set, err := zone.RRset{Owner: zone.MustName("a.example.org"), Type: test.typ}.WithData([]string{test.data})
			if err != nil {
				t.Fatal(err)
			}
			if got := zone.RdataText(set.RRs()[0]); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

package zone_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// ixfrChain is a zone after three updates, and the way there.
func ixfrChain(t *testing.T) (end *zone.Version, chain []*zone.Changeset) {
	t.Helper()
	c := candidateOf(t, updateZone)
	for _, text := range []string{
		"update delete www A 192.0.2.1\nupdate add new 60 A 192.0.2.9",
		"update add @ 60 SOA ns2.example.net. host.example.net. 100 1 2 3 4",
		"update delete new",
	} {
		_, cs := planMessage(t, c, readNsupdate(t, caseOrigin, text), 1)
		if err := c.Apply(cs); err != nil {
			t.Fatal(err)
		}
		chain = append(chain, cs)
	}
	return c.Version(), chain
}

func ixfrText(current zone.RRset, chain []*zone.Changeset) string {
	var b strings.Builder
	for rr := range zone.IXFR(current, chain) {
		if soa, ok := rr.(*dns.SOA); ok {
			b.WriteString("SOA " + itoa(soa.Serial) + "\n")
			continue
		}
		b.WriteString(strings.ReplaceAll(rr.String(), "\t", " ") + "\n")
	}
	return b.String()
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func TestIXFR(t *testing.T) {
	end, chain := ixfrChain(t)
	first := zone.NewVersion(end.Origin()).Candidate()
	birth, err := first.Plan(zone.SeedUpdate(zoneSets(t, updateZone, false)), 1)
	if err != nil {
		t.Fatal(err)
	}
	static := end.SOA()
	static.Static = true
	whole := `SOA 101
SOA 10
www.example.org. 300 IN A 192.0.2.1
SOA 11
new.example.org. 60 IN A 192.0.2.9
SOA 11
SOA 100
SOA 100
new.example.org. 60 IN A 192.0.2.9
SOA 101
SOA 101
`
	for _, tt := range []struct {
		name    string
		current zone.RRset
		chain   []*zone.Changeset
		want    string
	}{
		{"deleted before added, oldest first, between the current SOAs", end.SOA(), chain, whole},
		{"the last step alone", end.SOA(), chain[2:], "SOA 101\nSOA 100\nnew.example.org. 60 IN A 192.0.2.9\nSOA 101\nSOA 101\n"},
		{"a secondary that is up to date gets the SOA alone", end.SOA(), nil, "SOA 101\n"},
		{"the static mark is not sent and does not matter", static, chain, whole},
		{"a chain that lacks a link yields nothing", end.SOA(), []*zone.Changeset{chain[0], chain[2]}, ""},
		{"a chain that ends before the current version yields nothing", end.SOA(), chain[:2], ""},
		{"a chain that starts with the making of the zone yields nothing", birth.To, []*zone.Changeset{birth}, ""},
		{"a chain that ends with the end of the zone yields nothing", birth.To, []*zone.Changeset{birth.Inverse()}, ""},
		{"a zone that has no SOA yields nothing", zone.RRset{}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ixfrText(tt.current, tt.chain); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestIXFRStopsWhenAsked(t *testing.T) {
	end, chain := ixfrChain(t)
	total := 0
	for range zone.IXFR(end.SOA(), chain) {
		total++
	}
	for stop := 1; stop <= total; stop++ {
		n := 0
		for range zone.IXFR(end.SOA(), chain) {
			if n++; n == stop {
				break
			}
		}
		if n != stop {
			t.Errorf("stopped after %d, want %d", n, stop)
		}
	}
}

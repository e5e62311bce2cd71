package zone_test

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func benchSet(b *testing.B, text string) zone.RRset {
	b.Helper()
	rr, err := dns.NewRR(text)
	if err != nil {
		b.Fatal(err)
	}
	set, err := zone.NewRRset(rr)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

// BenchmarkPlan is what most updates are: one address of one name replaced.
func BenchmarkPlan(b *testing.B) {
	c := candidateOf(b, updateZone)
	for _, bb := range []struct {
		name string
		u    zone.Update
	}{
		{"replace A", zone.Update{Operations: zone.ReplaceRRset(benchSet(b, "a.b.example.org. 60 IN A 192.0.2.9"))}},
		{"nothing differs", zone.Update{Operations: zone.ReplaceRRset(benchSet(b, "a.b.example.org. 60 IN A 192.0.2.3"))}},
		{"add A", zone.Update{Operations: zone.ReplaceRRset(benchSet(b, "new.example.org. 60 IN A 192.0.2.9"))}},
	} {
		bb.u.Limits = zone.Limits{Names: 1000, RecordsPerSet: 10, RRsetsPerName: 10, RecordsPerZone: 1000}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Plan(bb.u, 1790000000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseUpdate(b *testing.B) {
	m := readNsupdate(b, caseOrigin, "update delete a.b A\nupdate add a.b 60 A 192.0.2.9")
	origin := zone.MustName(caseOrigin)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := zone.ParseUpdate(m, origin); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChangeset(b *testing.B) {
	c := candidateOf(b, updateZone)
	cs, err := c.Plan(zone.Update{Operations: zone.ReplaceRRset(benchSet(b, "a.b.example.org. 60 IN A 192.0.2.9"))}, 1790000000)
	if err != nil {
		b.Fatal(err)
	}
	encoded := cs.Encode()
	b.Run(fmt.Sprintf("Encode to %d octets", len(encoded)), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cs.Encode()
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := zone.DecodeChangeset(c.Origin(), encoded); err != nil {
				b.Fatal(err)
			}
		}
	})
}

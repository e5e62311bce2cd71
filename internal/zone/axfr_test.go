package zone_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestAXFRIsTheWholeZoneBetweenItsSOA(t *testing.T) {
	v := load(t, "testdata/lookup/example.org.zone", "example.org")
	var rrs []dns.RR
	for rr := range v.AXFR() {
		rrs = append(rrs, rr)
	}
	first, last := rrs[0].(*dns.SOA), rrs[len(rrs)-1].(*dns.SOA)
	if first.Serial != 7 || first.String() != last.String() || len(rrs) != v.Counts().Records+1 {
		t.Fatalf("%d records of %d from %s to %s", len(rrs), v.Counts().Records+1, first, last)
	}
	// What was sent is a zone file of the same zone.
	var b strings.Builder
	for _, rr := range rrs[:len(rrs)-1] {
		b.WriteString(rr.String() + "\n")
	}
	again := parse(t, b.String(), "example.org")
	if again.Counts() != v.Counts() {
		t.Fatalf("counts %+v, want %+v", again.Counts(), v.Counts())
	}
	for owner, n := range v.All() {
		if again.Node(owner) != n {
			t.Errorf("%s differs", owner)
		}
	}
	for _, hidden := range []string{"ns.sub.example.org.", "hidden.dn.example.org."} {
		if !slices.ContainsFunc(rrs, func(rr dns.RR) bool { return rr.Header().Name == hidden }) {
			t.Errorf("%s is not sent", hidden)
		}
	}
}

func TestAXFRMayBeLeftAnywhere(t *testing.T) {
	v := load(t, "testdata/lookup/example.org.zone", "example.org")
	for stop := range v.Counts().Records + 1 {
		n := 0
		for range v.AXFR() {
			if n++; n > stop {
				break
			}
		}
	}
	for rr := range zone.NewVersion(zone.MustName("example.org")).AXFR() {
		t.Errorf("a zone without SOA sends %s", rr)
	}
}

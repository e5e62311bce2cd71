package zone_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// TestBuilder: a zone that is built is the zone that is put together node by node, and
// can be gone on with in the same way.
func TestBuilder(t *testing.T) {
	labels := []string{"a", "b", "c", "d", "*", "e1", "f2"}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 5))
		origin := zone.MustName("example.org")
		hash := func(n zone.Name) uint64 { // unkind for some
			h := uint64(14695981039346656037)
			for _, c := range []byte(n) {
				h = (h ^ uint64(c)) * 1099511628211
			}
			return h & []uint64{^uint64(0), 0xffff_ffff_ffff_8010, 0, 0x00ff_ffff_ffff_ffff}[seed%4]
		}
		nodes := map[zone.Name]zone.Node{}
		for range rng.IntN(300) {
			name := "example.org"
			for range rng.IntN(6) {
				name = labels[rng.IntN(len(labels))] + "." + name
			}
			if rng.IntN(3) == 0 {
				name = fmt.Sprintf("h%d.%s", rng.IntN(1000), name)
			}
			line := name + []string{". 60 A 192.0.2.1", ". 60 NS ns.example.net.", ". 60 DNAME example.net."}[rng.IntN(3)]
			if rng.IntN(10) == 0 {
				line = name + ". 60 TXT " + strings.Repeat(`"`+strings.Repeat("x", 250)+`" `, 1+rng.IntN(20))
			}
			nodes[zone.MustName(name)] = zone.NewNode(set(t, line))
		}
		nodes[origin] = zone.NewNode(set(t, "example.org. 60 SOA ns.example.net. h.example.net. 7 1 1 1 1"), set(t, "example.org. 60 NS ns.example.net."))
		if seed == 0 {
			clear(nodes)
		}
		c, b := zone.NewVersionHashing(origin, hash).Candidate(), zone.NewBuilderHashing(origin, hash)
		for owner, n := range nodes {
			c.Put(owner, n)
			b.Put(owner, n)
		}
		same := func(when string, built, put *zone.Version) {
			t.Helper()
			if got, want := maps.Collect(built.All()), maps.Collect(put.All()); !maps.Equal(got, want) {
				t.Fatalf("seed %d, %s: %d owners, want %d", seed, when, len(got), len(want))
			}
			n, l, bad := built.IndexShape()
			n2, l2, _ := put.IndexShape()
			if n != n2 || l != l2 || bad != "" {
				t.Fatalf("seed %d, %s: an index of %d nodes and %d leaves, want %d and %d; %s", seed, when, n, l, n2, l2, bad)
			}
			if built.Counts() != put.Counts() || built.SOA() != put.SOA() || built.Serial() != put.Serial() {
				t.Fatalf("seed %d, %s: %+v, want %+v", seed, when, built.Counts(), put.Counts())
			}
			x, y, z := built.Walks()
			if x2, y2, z2 := put.Walks(); x != x2 || y != y2 || z != z2 {
				t.Fatalf("seed %d, %s: %d cuts, %d DNAMEs, %d wildcards, want %d, %d, %d", seed, when, x, y, z, x2, y2, z2)
			}
		}
		built, put := b.Version(), c.Version()
		same("built", built, put)
		// Taking all of it away shows whether children are counted right.
		cb, cp := built.Candidate(), put.Candidate()
		for owner := range nodes {
			cb.Put(owner, "")
			cp.Put(owner, "")
			same("while it is taken away", cb.Version(), cp.Version())
		}
		same("built, as it was", built, put)
	}
}

package zone_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// The shape of the index depends on the owners only, also where their hashes are
// unkind: few slots on some levels, so that buckets are split and joined through
// nodes.
func TestIndexKeepsItsShape(t *testing.T) {
	seed := maphash.MakeSeed()
	for name, mask := range map[string]uint64{
		"as they come":           ^uint64(0),
		"one slot on two levels": 0xffff_ffff_ffff_fc00,
		"two slots far apart":    0xffff_ffff_ffff_8010,
		"two slots at the end":   1 << 63,
		"neighbours deep down":   1<<59 | 1<<60 | 1<<61,
		"equal tags":             0x00ff_ffff_ffff_ffff,
		"all the same":           0,
	} {
		t.Run(name, func(t *testing.T) {
			origin := zone.MustName("example.org")
			v := zone.NewVersionHashing(origin, func(n zone.Name) uint64 { return maphash.String(seed, string(n)) & mask })
			c := v.Candidate()
			rng := rand.New(rand.NewPCG(7, 7))
			node := zone.NewNode(set(t, "x. 60 A 192.0.2.0"))
			there := map[int]bool{}
			for range 6000 {
				// Around the sizes at which one to eight buckets are full.
				i := rng.IntN(4 * zone.BucketSize)
				owner := zone.MustName(fmt.Sprintf("h%d.example.org", i))
				if there[i] = rng.IntN(3) > 0; there[i] {
					c.Put(owner, node)
				} else {
					c.Put(owner, "")
					delete(there, i)
				}
				if _, leaves, bad := c.Version().IndexShape(); bad != "" || leaves != len(there) {
					t.Fatalf("%d leaves, want %d; %s", leaves, len(there), bad)
				}
			}
			for i := range 4 * zone.BucketSize {
				if got := c.Node(zone.MustName(fmt.Sprintf("h%d.example.org", i))) == node; got != there[i] {
					t.Errorf("h%d is there: %t, want %t", i, got, there[i])
				}
			}
		})
	}
}

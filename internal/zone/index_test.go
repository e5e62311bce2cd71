package zone_test

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/miekg/dns"

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
			nodes := []zone.Node{"", zone.NewNode(set(t, "x. 60 A 192.0.2.0")), zone.NewNode(set(t, "x. 60 A 192.0.2.0")), long(t, zone.BucketOctets/8), long(t, 2*zone.BucketOctets)}
			there := map[int]zone.Node{}
			for range 6000 {
				// Around the sizes at which one to eight buckets are full.
				i := rng.IntN(4 * zone.BucketLeaves)
				owner := zone.MustName(fmt.Sprintf("h%d.example.org", i))
				there[i] = nodes[rng.IntN(len(nodes))]
				if rng.IntN(4) > 0 { // mostly short, so that the number counts as well
					there[i] = nodes[rng.IntN(2)]
				}
				c.Put(owner, there[i])
				if there[i] == "" {
					delete(there, i)
				}
				if _, leaves, bad := c.Version().IndexShape(); bad != "" || leaves != len(there) {
					t.Fatalf("%d leaves, want %d; %s", leaves, len(there), bad)
				}
			}
			for i := range 4 * zone.BucketLeaves {
				if got := c.Node(zone.MustName(fmt.Sprintf("h%d.example.org", i))); got != there[i] {
					t.Errorf("h%d: %d octets, want %d", i, len(got), len(there[i]))
				}
			}
		})
	}
}

// long is a node of about so many octets.
func long(t *testing.T, octets int) zone.Node {
	rdata := strings.Repeat("\xff"+strings.Repeat("x", 255), octets/256)
	set, err := zone.RRset{Owner: zone.MustName("x"), Type: dns.TypeTXT, TTL: 60}.WithData([]string{rdata})
	if err != nil {
		t.Fatal(err)
	}
	return zone.NewNode(set)
}

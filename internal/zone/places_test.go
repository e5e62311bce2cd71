package zone_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Owners have the place at which they came first, in whatever order they come.
func TestPlacesOfOwners(t *testing.T) {
	sorted := []zone.Name{zone.MustName("example.org")}
	for i := range 200 {
		sorted = append(sorted, zone.MustName(fmt.Sprintf("h%03d.example.org", i)))
	}
	shuffled := slices.Clone(sorted)
	r := rand.New(rand.NewPCG(1, 3))
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	backwards := slices.Clone(sorted)
	slices.Reverse(backwards)
	for name, owners := range map[string][]zone.Name{
		"ascending":                      sorted,
		"each twice":                     slices.Concat(slices.Repeat(sorted[:1], 2), sorted[1:], sorted[1:]),
		"two passes":                     slices.Concat(sorted, sorted),
		"the apex at the end":            slices.Concat(sorted[1:], sorted[:1], sorted),
		"one out of order":               slices.Concat(sorted[:50], sorted[51:], sorted[50:51], sorted),
		"asked for again while in order": slices.Concat(sorted[:100], sorted[7:9], sorted[100:], shuffled),
		"shuffled":                       slices.Concat(shuffled, sorted, shuffled),
		"backwards":                      slices.Concat(backwards, sorted),
	} {
		t.Run(name, func(t *testing.T) {
			of := zone.Places(4)
			want := map[zone.Name]int{}
			for _, o := range owners {
				place, known := want[o]
				if !known {
					place = len(want)
					want[o] = place
				}
				if at, added := of(o); at != place || added == known {
					t.Fatalf("%s: place %d, added %t; want %d, %t", o, at, added, place, !known)
				}
			}
		})
	}
}

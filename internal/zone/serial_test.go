package zone_test

import (
	"math"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestSerialCompare(t *testing.T) {
	const half = 1 << 31
	tests := []struct {
		s, t zone.Serial
		want zone.Order
	}{
		{1, 1, zone.Equal},
		{2, 1, zone.Greater},
		{1, 2, zone.Lower},
		{0, math.MaxUint32, zone.Greater},
		{math.MaxUint32, 0, zone.Lower},
		{half, 0, zone.Incomparable},
		{0, half, zone.Incomparable},
		{half - 1, 0, zone.Greater},
		{half + 1, 0, zone.Lower},
		{5, 5 + half, zone.Incomparable},
		{half, 1, zone.Greater},
	}
	for _, tt := range tests {
		if got := tt.s.Compare(tt.t); got != tt.want {
			t.Errorf("%d to %d: got %d, want %d", tt.s, tt.t, got, tt.want)
		}
		if got := tt.s.Newer(tt.t); got != (tt.want == zone.Greater) {
			t.Errorf("%d newer than %d: got %v", tt.s, tt.t, got)
		}
	}
}

func TestSerialNextIsAlwaysNewerAndNeverZero(t *testing.T) {
	const half = 1 << 31
	edges := []uint32{0, 1, 2, half - 2, half - 1, half, half + 1, half + 2, math.MaxUint32 - 1, math.MaxUint32, 1_800_000_000}
	for _, s := range edges {
		for _, now := range edges {
			for _, d := range []uint32{0, 1, math.MaxUint32} {
				s, now := zone.Serial(s), now+d
				n := s.Next(now)
				if n == 0 || !n.Newer(s) {
					t.Errorf("after %d at %d: got %d", s, now, n)
				}
				if now != 0 && zone.Serial(now).Newer(s) && zone.Serial(now).Newer(s+1) && n != zone.Serial(now) {
					t.Errorf("after %d at %d: got %d, not the time", s, now, n)
				}
			}
		}
	}
}

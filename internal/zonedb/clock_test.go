package zonedb_test

import (
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// TestSerialSurvivesClockJumps sets the clock forth and back between updates, by an
// hour, by decades, and to where 32 bits end. Every serial must be newer than the
// one before (RFC 1982), or secondaries would stay behind.
func TestSerialSurvivesClockJumps(t *testing.T) {
	s := keepOpen{mem.New()}
	now := time.Unix(1_700_000_000, 0)
	options := zonedb.Options{Now: func() time.Time { return now }}
	_, z := open(t, s, options)
	last := z.Version().Serial()
	for n, jump := range []struct {
		name string
		to   time.Time
	}{
		{"an hour forth", now.Add(time.Hour)},
		{"an hour back", now},
		{"ten years back", now.AddDate(-10, 0, 0)},
		{"before 1970", time.Unix(-1000, 0)},
		{"1970", time.Unix(0, 0)},
		{"back to the present", now.Add(2 * time.Hour)},
		{"sixty years forth", now.AddDate(60, 0, 0)},
		{"the last second of 32 bits", time.Unix(1<<32-1, 0)},
		{"the second after it", time.Unix(1<<32, 0)},
		{"a year after it", time.Unix(1<<32, 0).AddDate(1, 0, 0)},
		{"the present again", now},
	} {
		now = jump.to
		for k := range 3 {
			r := update(t, z, host("a", address(n*3+k)))
			if !r.Changed || r.Serial == 0 || r.Serial.Compare(last) != zone.Greater {
				t.Errorf("%s: got serial %d after %d (changed: %t)", jump.name, r.Serial, last, r.Changed)
			}
			last = r.Serial
		}
	}
	_, again := open(t, s, options)
	if got := again.Version().Serial(); got != last {
		t.Errorf("after a restart with another clock: serial %d, want %d", got, last)
	}
}

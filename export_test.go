package ddns

import (
	"maps"
	"slices"
	"testing"

	"github.com/coredns-ddns/ddns/internal/plain"
)

// Properties are the words of the stanza, sorted.
func Properties() []string { return slices.Sorted(maps.Keys(properties)) }

// HoldZoneFile has the zone file at path be slow: held gets a value when it is about to
// be read, which goes on when one is sent to proceed.
func HoldZoneFile(t *testing.T, path string) (held <-chan struct{}, proceed chan<- struct{}) {
	reached, on := make(chan struct{}), make(chan struct{})
	readZoneFile = func(p string, most int64) ([]byte, error) {
		if p == path {
			reached <- struct{}{}
			<-on
		}
		return plain.Read(p, most)
	}
	t.Cleanup(func() { readZoneFile = plain.Read })
	return reached, on
}

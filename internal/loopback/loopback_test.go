package loopback_test

import (
	"net"
	"testing"

	"github.com/coredns-ddns/ddns/internal/loopback"
)

func TestAddressIsFreeAndNeverTheSame(t *testing.T) {
	seen := make(map[string]bool)
	for range 500 {
		a, err := loopback.Address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[a] {
			t.Fatalf("%s twice", a)
		}
		seen[a] = true
	}
	for a := range seen {
		l, err := net.Listen("tcp", a)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

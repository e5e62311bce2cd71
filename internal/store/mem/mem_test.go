package mem_test

import (
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.TestStore(t, storetest.Backend{Open: func(t *testing.T) store.Store {
		s := mem.New()
		t.Cleanup(func() { s.Close() })
		return s
	}})
}

// Without faults the faulty store is the one it wraps.
func TestFaultyWithoutFaults(t *testing.T) {
	storetest.TestStore(t, storetest.Backend{Open: func(t *testing.T) store.Store {
		s := storetest.NewFaulty(mem.New())
		t.Cleanup(func() { s.Close() })
		return s
	}})
}

package bolt_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
)

func open(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{Warn: func(m string) { t.Errorf("warning: %s", m) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	paths := make(map[store.Store]string)
	storetest.TestStore(t, storetest.Backend{
		Open: func(t *testing.T) store.Store {
			path := filepath.Join(t.TempDir(), "ddns.db")
			s := open(t, path)
			paths[s] = path
			return s
		},
		Reopen: func(t *testing.T, s store.Store) store.Store {
			if err := s.(*bolt.Store).Check(t.Context()); err != nil {
				t.Errorf("Check: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			r := open(t, paths[s])
			paths[r] = paths[s]
			return r
		},
		Restore: func(t *testing.T, backup []byte) store.Store {
			path := filepath.Join(t.TempDir(), "restored.db")
			if err := os.WriteFile(path, backup, 0o600); err != nil {
				t.Fatal(err)
			}
			return open(t, path)
		},
	})
}

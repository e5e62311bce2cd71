package bolt_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// What a decoder accepts it must be able to write again, to the octet.
func FuzzDecodeState(f *testing.F) {
	f.Add(bolt.AppendState(nil, bolt.State{State: store.State{Oldest: 1}}))
	f.Add(bolt.AppendState(nil, bolt.State{State: store.State{Last: 9, Oldest: 3, Serial: 1 << 31, Static: "abc"}, Nodes: 4, Sum: 1 << 40}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := bolt.DecodeState(b)
		if err != nil {
			if !errors.Is(err, bolt.ErrDamaged) {
				t.Errorf("error %v", err)
			}
			return
		}
		if s.Oldest == 0 || s.Oldest > s.Last+1 {
			t.Errorf("accepted %+v", s)
		}
		if got := bolt.AppendState(nil, s); !bytes.Equal(got, b) {
			t.Errorf("%x is written as %x", b, got)
		}
	})
}

func FuzzDecodeOwner(f *testing.F) {
	origin := zone.MustName("dyn.example.org.")
	for _, n := range []string{"dyn.example.org.", "a.dyn.example.org.", `\000\001.b.dyn.example.org.`} {
		f.Add(bolt.AppendOwner(nil, origin, zone.MustName(n)))
	}
	f.Add([]byte{1})
	f.Add([]byte{1, 0})
	f.Add([]byte("A\x00"))
	f.Add(bytes.Repeat([]byte("a\x00"), 130))
	f.Fuzz(func(t *testing.T, key []byte) {
		n, err := bolt.DecodeOwner(origin, key)
		if err != nil {
			return
		}
		if p, err := zone.ParseName(n.String()); err != nil || p != n || !n.Within(origin) {
			t.Errorf("%x is read as %q, %v", key, n, err)
		}
		if got := bolt.AppendOwner(nil, origin, n); !bytes.Equal(got, key) {
			t.Errorf("%x is written as %x", key, got)
		}
	})
}

func FuzzDecodeCursor(f *testing.F) {
	for _, n := range []zone.Name{zone.Root, zone.MustName("dyn.example.org.")} {
		f.Add([]byte(n), bolt.AppendCursor(n, 7))
	}
	f.Add([]byte("\x01A\x00"), []byte("12345678"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		n, p, err := bolt.DecodeCursor(key, value)
		if err != nil {
			return
		}
		if q, err := zone.ParseName(n.String()); err != nil || q != n || string(n) != string(key) {
			t.Errorf("%x is read as %q, %v", key, n, err)
		}
		if got := bolt.AppendCursor(n, p); !bytes.Equal(got, value) {
			t.Errorf("%x is written as %x", value, got)
		}
	})
}

func TestSealFindsEveryChangedBit(t *testing.T) {
	key := []byte("key")
	sealed := bolt.Seal(key, []byte("some value"))
	if v, _, err := bolt.Unseal(key, sealed); err != nil || string(v) != "some value" {
		t.Fatalf("got %q, %v", v, err)
	}
	for i := range len(sealed) * 8 {
		b := bytes.Clone(sealed)
		b[i/8] ^= 1 << (i % 8)
		if _, _, err := bolt.Unseal(key, b); !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("bit %d: error %v", i, err)
		}
	}
	if _, _, err := bolt.Unseal([]byte("kex"), sealed); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("under another key: error %v", err)
	}
}

// Keys sort as their names do, so that a name and what is below it are neighbours.
func TestOwnerKeysSortCanonically(t *testing.T) {
	origin := zone.MustName("example.")
	var names []zone.Name
	for _, s := range []string{"example.", `\000.example.`, "a.example.", "yljkjljk.a.example.", "z.a.example.", "zabc.a.example.", `\001.z.example.`, "*.z.example.", `\200.z.example.`} {
		names = append(names, zone.MustName(s))
	}
	if !slices.IsSortedFunc(names, zone.Name.Compare) {
		t.Fatal("the list is not in canonical order")
	}
	for i := 1; i < len(names); i++ {
		a, b := bolt.AppendOwner(nil, origin, names[i-1]), bolt.AppendOwner(nil, origin, names[i])
		if bytes.Compare(a, b) >= 0 {
			t.Errorf("key of %s does not sort before that of %s", names[i-1], names[i])
		}
	}
}

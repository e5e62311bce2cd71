package bolt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

const sector = 512

// small makes a database of a few dozen pages and returns its octets with the last
// state committed and the one before.
func small(t testing.TB) (file []byte, last, before *storetest.Chain) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.db")
	s := open(t, path)
	c := storetest.NewChain("dyn.example.org.")
	zc := c.Create(400)
	for j := range 20 {
		if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
			t.Fatal(err)
		}
		if err := s.Advance(t.Context(), store.Advance{Follower: "f", Cursors: map[zone.Name]store.Position{c.Origin: c.State.Last}, Put: []store.Item{{Key: "k", Value: []byte("item")}}}); err != nil {
			t.Fatal(err)
		}
		before = c.Clone()
		zc = c.Commit([]storetest.Change{c.Set(j*19, j), c.Set(500+j, j)})
		if j > 10 {
			zc = c.Trim(zc, 5)
		}
	}
	if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Of the part that is there for growth nothing is read.
	page := os.Getpagesize()
	used := max(binary.NativeEndian.Uint64(file[16+40:]), binary.NativeEndian.Uint64(file[page+16+40:]))
	return file[:int(used)*page], c, before
}

// judge opens a damaged file: it must be refused in a sentence that names it, or
// hold a state that was committed whole.
func judge(path string, file []byte, states ...*storetest.Chain) (served bool, err error) {
	if err := os.WriteFile(path, file, 0o600); err != nil {
		return false, err
	}
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		if !strings.Contains(err.Error(), path) {
			return false, fmt.Errorf("refused without naming the file: %w", err)
		}
		return false, nil
	}
	defer s.Close()
	for it, err := range s.Items("f", "") {
		if err == nil && (it.Key != "k" || string(it.Value) != "item") {
			return false, fmt.Errorf("item %q is %q", it.Key, it.Value)
		}
	}
	if cursors, err := s.Cursors("f"); err == nil {
		for _, p := range cursors {
			if p < states[len(states)-1].State.Last-1 {
				return false, fmt.Errorf("cursor at %d", p)
			}
		}
	}
	st, found, err := s.Load(nilContext, states[0].Origin, func(zone.Name, zone.Node) {})
	if err != nil {
		return false, nil
	}
	if !found {
		return false, fmt.Errorf("the zone is gone without an error")
	}
	for _, c := range states {
		if st.Last != c.State.Last {
			continue
		}
		err := storetest.Compare(s, c)
		if err != nil && !strings.Contains(err.Error(), "damaged") { // said by Journal
			return false, err
		}
		return err == nil, nil
	}
	return false, fmt.Errorf("serves %+v", st)
}

func TestDamagedSectors(t *testing.T) {
	file, last, before := small(t)
	path := filepath.Join(t.TempDir(), "damaged.db")
	if served, err := judge(path, file, last); !served || err != nil {
		t.Fatalf("the undamaged file: %v, %v", served, err)
	}
	damages := map[string]func(b []byte){
		"zeroed":           func(b []byte) { clear(b) },
		"inverted":         func(b []byte) { invert(b, 1) },
		"one octet in 100": func(b []byte) { invert(b, 100) },
		"all ones":         func(b []byte) { copy(b, bytes.Repeat([]byte{0xff}, len(b))) },
	}
	served, refused := 0, 0
	for name, damage := range damages {
		for at := 0; at < len(file); at += sector {
			bad := bytes.Clone(file)
			damage(bad[at:min(at+sector, len(bad))])
			ok, err := judge(path, bad, last, before)
			switch {
			case err != nil:
				t.Errorf("sector at %d %s: %v", at, name, err)
			case ok:
				served++
			default:
				refused++
			}
		}
	}
	t.Logf("%d sectors: %d times served whole, %d times refused", len(file)/sector, served, refused)
	if served == 0 || refused == 0 {
		t.Error("one of the two never happens: the test tests nothing")
	}
}

func TestCutOff(t *testing.T) {
	file, last, before := small(t)
	path := filepath.Join(t.TempDir(), "short.db")
	for size := 1; size < len(file); size += 1000 {
		if _, err := judge(path, file[:size], last, before); err != nil {
			t.Errorf("cut off at %d: %v", size, err)
		}
	}
}

// A page as it was some commits ago is well-formed: only the sums tell.
func TestStalePages(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ddns.db")
	s := open(t, path)
	c := storetest.NewChain("dyn.example.org.")
	zc := c.Create(400)
	var old []byte
	for j := range 12 {
		if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
			t.Fatal(err)
		}
		if j == 9 {
			old, _ = os.ReadFile(path)
		}
		zc = c.Commit([]storetest.Change{c.Set(j, j+7)})
	}
	if err := s.Commit(t.Context(), []store.ZoneCommit{zc}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for at := 0; at+page <= min(len(old), len(now)); at += page {
		bad := bytes.Clone(now)
		copy(bad[at:at+page], old[at:at+page])
		if bytes.Equal(bad, now) {
			continue
		}
		if served, err := judge(filepath.Join(dir, "stale.db"), bad, c); err != nil && at >= 2*page {
			t.Errorf("page %d is stale: served %v, %v", at/page, served, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	file, last, before := small(f)
	f.Add(uint32(0), []byte{1})
	f.Add(uint32(4096+16), []byte{0, 0, 0, 0})
	f.Add(uint32(3*4096+8), []byte{1, 0, 0xff, 0xff})
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, at uint32, patch []byte) {
		bad := bytes.Clone(file)
		copy(bad[int(at)%len(bad):], patch)
		if _, err := judge(filepath.Join(dir, fmt.Sprintf("fuzz%d.db", os.Getpid())), bad, last, before); err != nil {
			t.Error(err)
		}
	})
}

func invert(b []byte, every int) {
	for i := 0; i < len(b); i += every {
		b[i] ^= 0xff
	}
}

package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/wal"
)

func create(t testing.TB, path string, epoch, last uint64) *wal.Log {
	t.Helper()
	l, err := wal.Create(path, wal.MinSize, epoch, last)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// payload is what record n of a test holds: its length depends on n.
func payload(n uint64) []byte {
	r := rand.New(rand.NewPCG(n, 1))
	b := make([]byte, r.IntN(3*wal.Block))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func add(t testing.TB, l *wal.Log, n uint64) {
	t.Helper()
	if got, err := l.Append(payload(n)); err != nil || got != n {
		t.Fatalf("Append: record %d, %v; want %d", got, err, n)
	}
}

// check scans and wants the records (after, last].
func check(t testing.TB, path string, epoch, after, last uint64) {
	t.Helper()
	c, err := wal.Scan(path, after)
	if err != nil || c == nil || c.Epoch != epoch {
		t.Fatalf("Scan: %+v, %v", c, err)
	}
	if uint64(len(c.Records)) != last-after {
		t.Fatalf("Scan: %d records after %d, want up to %d", len(c.Records), after, last)
	}
	for i, r := range c.Records {
		if n := after + uint64(i) + 1; r.Number != n || !bytes.Equal(r.Payload, payload(n)) {
			t.Fatalf("Scan: record %d is not what was appended as %d", r.Number, n)
		}
	}
}

func TestRecordsAreFoundUntilReleased(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if c, err := wal.Scan(path, 0); c != nil || err != nil {
		t.Fatalf("no file: %+v, %v", c, err)
	}
	l := create(t, path, 7, 10)
	check(t, path, 7, 10, 10)
	for n := uint64(11); n < 15; n++ {
		add(t, l, n)
	}
	check(t, path, 7, 10, 14)
	check(t, path, 7, 12, 14)

	// Another epoch: what is there is a remainder.
	l = create(t, path, 8, 14)
	check(t, path, 8, 10, 10)
	add(t, l, 15)
	check(t, path, 8, 14, 15)
}

// TestRing appends and releases at random, through many turns of the ring and while
// it grows, and looks at the file each time as a process would that starts now.
func TestRing(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		path := filepath.Join(t.TempDir(), "log")
		l := create(t, path, 1, 0)
		type mark struct {
			at   uint64
			mark wal.Mark
		}
		var marks []mark
		last, released, full := uint64(0), uint64(0), 0
		for range 400 {
			switch k := r.IntN(10); {
			case k < 6:
				n, err := l.Append(payload(last + 1))
				if errors.Is(err, wal.ErrFull) {
					full++
					if l.Pending() == 0 {
						t.Fatal("an empty log is full")
					}
					break
				}
				if err != nil || n != last+1 {
					t.Fatal(n, err)
				}
				last++
			case k == 6:
				marks = append(marks, mark{last, l.Mark()})
			case k < 9 && len(marks) > 0:
				l.Release(marks[0].mark)
				released, marks = marks[0].at, marks[1:]
			case k == 9 && r.IntN(20) == 0:
				size := l.Size() * 2
				if err := l.Extend(size); err != nil {
					t.Fatal(err)
				}
				l.Grown(size)
			}
			check(t, path, 1, released, last)
			if p := l.Pending(); p < 0 || p > l.Size()-wal.Block || (p == 0) != (released == last) {
				t.Fatalf("%d octets pending of %d with %d records", p, l.Size(), last-released)
			}
		}
		if full == 0 && seed == 0 {
			t.Error("it was never full")
		}
	}
}

func TestAppendThatIsCutShortIsNotFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := create(t, path, 1, 0)
	for n := uint64(1); n <= 4; n++ {
		add(t, l, n)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Where the last record begins.
	at := bytes.LastIndex(whole, []byte("dwal"))
	end := at + 28 + len(payload(4))
	for cut := at; cut < end; cut += 1 + (end-at)/97 {
		torn := bytes.Clone(whole)
		clear(torn[cut:])
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, path, 1, 0, 3)
	}
}

func TestDamageInTheMiddleIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := create(t, path, 1, 0)
	for n := uint64(1); n <= 4; n++ {
		add(t, l, n)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := wal.Block
	for n := uint64(1); n < 3; n++ {
		at += (28 + len(payload(n)) + wal.Block - 1) / wal.Block * wal.Block
	}
	b[at+30] ^= 1 // of record 3
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wal.Scan(path, 0); err == nil || !strings.Contains(err.Error(), "record 4 comes after 2") || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

// An append begins when the one before it is on stable storage, so that at most one
// can have been cut short.
func TestDamageAtTheEndIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := create(t, path, 1, 0)
	for n := uint64(1); n <= 6; n++ {
		add(t, l, n)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for broken := 1; broken <= 6; broken++ {
		b := bytes.Clone(whole)
		for rest, n := b, 0; n < broken; n++ {
			at := bytes.LastIndex(rest, []byte("dwal"))
			b[at+29] ^= 1
			rest = rest[:at]
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if broken == 1 {
			check(t, path, 1, 0, 5)
			continue
		}
		want := fmt.Sprintf("its records end with %d, and those up to 6 cannot be read", 6-broken)
		if c, err := wal.Scan(path, 0); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("the last %d: %+v, %v; want %q", broken, c, err, want)
		}
	}
}

// A client that may choose a payload must not be able to make it look like a record, even
// when the block before it, where its own record begins, has been written over.
func TestPayloadIsNoRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := create(t, path, 1234567, 0)
	forged := make([]byte, 2*wal.Block)
	wal.PutRecord(forged[wal.Block-28:], 1, 1<<40, []byte("forged"))
	if _, err := l.Append(forged); err != nil {
		t.Fatal(err)
	}
	l.Release(l.Mark())
	if _, err := l.Append(nil); err != nil { // over the first block
		t.Fatal(err)
	}
	c, err := wal.Scan(path, 0)
	if err != nil || len(c.Records) != 1 || c.Records[0].Number != 2 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	newer := wal.AppendHeader(nil, 1)
	binary.BigEndian.PutUint32(newer[8:], 2)
	newer = wal.Sum(newer[:len(newer)-4])
	damaged := wal.AppendHeader(nil, 1)
	damaged[13] ^= 1
	for name, tt := range map[string]struct {
		file []byte
		want string
	}{
		"an empty file":       {nil, "not a log"},
		"a text":              {[]byte(strings.Repeat("hello\n", 1000)), "not a log"},
		"a newer layout":      {append(newer, make([]byte, wal.Block)...), "layout 2"},
		"a header cut short":  {damaged[:12], "damaged"},
		"a header with a bit": {append(damaged, make([]byte, wal.Block)...), "damaged"},
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, tt.file, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := wal.Scan(path, 0)
		if err == nil || c == nil || len(c.Records) > 0 || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Scan: %v, want %q", name, err, tt.want)
		}
		l, err := wal.Create(path, wal.MinSize, 5, 0)
		if errors.Is(err, wal.ErrHeader) || (err == nil) != (tt.want == "damaged") {
			t.Errorf("%s: Create: %v", name, err)
		}
		if err == nil {
			if l.Size() < wal.MinSize {
				t.Errorf("%s: taken into use with %d octets", name, l.Size())
			}
			l.Close()
		}
	}
}

func TestLogThatIsNotThereIsNoticed(t *testing.T) {
	for name, away := range map[string]func(path string) error{
		"removed": os.Remove,
		"moved":   func(path string) error { return os.Rename(path, path+".away") },
		"removed, with another link": func(path string) error {
			return errors.Join(os.Link(path, path+".link"), os.Remove(path))
		},
		"replaced by a copy": func(path string) error {
			b, err := os.ReadFile(path)
			return errors.Join(err, os.Rename(path, path+".away"), os.WriteFile(path, b, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			l := create(t, path, 1, 0)
			if !l.Present() {
				t.Error("not present")
			}
			if err := away(path); err != nil {
				t.Fatal(err)
			}
			if l.Present() {
				t.Error("present all the same")
			}
			if err := l.Extend(1 << 20); err == nil {
				t.Error("extended a file that is gone")
			}
		})
	}
}

// FuzzScan gives it the octets of a file: what it finds is in order of numbers, and
// inside the file.
func FuzzScan(f *testing.F) {
	file := make([]byte, 4*wal.Block)
	for n := range uint64(3) {
		wal.PutRecord(file[(n+1)*wal.Block:], 1, n+1, []byte("payload"))
	}
	f.Add(file[:2*wal.Block+100], uint16(0), byte(0))
	f.Add(file, uint16(wal.Block+5), byte(255))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, flip byte) {
		if int(at) < len(b) {
			b = bytes.Clone(b) // the fuzzer's own must not change
			b[at] ^= flip
		}
		octets, last := 0, uint64(0)
		records, _ := wal.Parse(b, 1, 0)
		for _, r := range records {
			if r.Number < last {
				t.Errorf("record %d after %d", r.Number, last)
			}
			last = r.Number
			octets += len(r.Payload)
		}
		if octets > len(b) {
			t.Errorf("%d octets of payload in a file of %d", octets, len(b))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{300, 3000, 30000} {
		b.Run(fmt.Sprintf("octets=%d", size), func(b *testing.B) {
			l, err := wal.Create(filepath.Join(b.TempDir(), "log"), 1<<20, 1, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			p := make([]byte, size)
			for b.Loop() {
				if _, err := l.Append(p); errors.Is(err, wal.ErrFull) {
					l.Release(l.Mark())
				} else if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

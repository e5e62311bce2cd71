package bolt_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// filled makes a store of n hosts whose first changeset has been trimmed, which is
// how a zone that was seeded looks soon after: a large part of the file is free.
func filled(b *testing.B, n int) (*bolt.Store, *storetest.Chain, string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "ddns.db")
	s := open(b, path)
	c := storetest.NewChain("dyn.example.org.")
	for _, zc := range []store.ZoneCommit{c.Create(n), c.Trim(c.Commit([]storetest.Change{c.Set(0, 1)}), 2)} {
		if err := s.Commit(b.Context(), []store.ZoneCommit{zc}); err != nil {
			b.Fatal(err)
		}
	}
	c.Journal = nil // not compared here
	return s, c, path
}

var sizes = []int{1_000, 100_000, 1_000_000}

// BenchmarkCommit has one changeset per update, each of one random host, as the
// writer commits them.
func BenchmarkCommit(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			if testing.Short() && n > 1000 {
				b.Skip("short")
			}
			s, c, _ := filled(b, n)
			for _, batch := range []int{1, 16, 64} {
				b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
					r := rand.New(rand.NewPCG(1, uint64(b.N)))
					for b.Loop() {
						b.StopTimer()
						groups := make([][]storetest.Change, batch)
						for i := range groups {
							groups[i] = []storetest.Change{c.Set(r.IntN(n), r.Int())}
						}
						zc := c.Commit(groups...)
						if c.State.Last > 20000 {
							zc = c.Trim(zc, c.State.Last-20000)
						}
						c.Journal = nil
						b.StartTimer()
						if err := s.Commit(b.Context(), []store.ZoneCommit{zc}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "updates/s")
				})
			}
		})
	}
}

// BenchmarkLoad opens a file and reads every host.
func BenchmarkLoad(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("hosts=%d", n), func(b *testing.B) {
			if testing.Short() && n > 1000 {
				b.Skip("short")
			}
			s, c, path := filled(b, n)
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			names := 0
			for b.Loop() {
				s, err := bolt.Open(path, bolt.Options{})
				if err != nil {
					b.Fatal(err)
				}
				names = 0
				if _, _, err := s.Load(b.Context(), c.Origin, func(zone.Name, zone.Node) { names++ }); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Close()
				b.StartTimer()
			}
			if names != n+1 {
				b.Errorf("loaded %d names, want %d", names, n+1)
			}
			fi, err := os.Stat(path)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(fi.Size())/float64(n), "file-octets/host")
			anon, file := rss(b)
			b.ReportMetric(anon, "RssAnon-MB")
			b.ReportMetric(file, "RssFile-MB")
		})
	}
}

// BenchmarkOpen is the part of loading that checks the file.
func BenchmarkOpen(b *testing.B) {
	s, _, path := filled(b, 100_000)
	s.Close()
	for b.Loop() {
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkBackup(b *testing.B) {
	s, _, _ := filled(b, 100_000)
	for b.Loop() {
		n, err := s.Backup(b.Context(), io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
	}
}

// rss reads what the process holds, in MB; zeros where that cannot be read.
func rss(b *testing.B) (anon, file float64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		var kb float64
		if _, err := fmt.Sscanf(line, "RssAnon: %f kB", &kb); err == nil {
			anon = kb / 1024
		}
		if _, err := fmt.Sscanf(line, "RssFile: %f kB", &kb); err == nil {
			file = kb / 1024
		}
	}
	return anon, file
}

package zone_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func hostName(i int) string { return fmt.Sprintf("host%07d.dyn.example.org.", i) }

// hosts makes a zone of n hosts with A and AAAA.
func hosts(tb testing.TB, n int) *zone.Version {
	apex := zone.MustName("dyn.example.org")
	b := zone.NewBuilder(apex)
	b.Put(apex, zone.NewNode(
		set(tb, "dyn.example.org. 3600 IN SOA ns1.dyn.example.org. hostmaster.dyn.example.org. 7 7200 900 1209600 60"),
		set(tb, "dyn.example.org. 3600 IN NS ns1.dyn.example.org.")))
	for i := range n {
		putHost(tb, b, i)
	}
	return b.Version()
}

func putHost(tb testing.TB, c interface{ Put(zone.Name, zone.Node) }, i int) {
	owner := zone.MustName(hostName(i))
	var ip [16]byte
	binary.BigEndian.PutUint32(ip[12:], uint32(i))
	a, err := zone.RRset{Owner: owner, Type: dns.TypeA, TTL: 60}.WithData([]string{string(ip[12:])})
	if err != nil {
		tb.Fatal(err)
	}
	ip[0] = 0x20
	aaaa, err := zone.RRset{Owner: owner, Type: dns.TypeAAAA, TTL: 60}.WithData([]string{string(ip[:])})
	if err != nil {
		tb.Fatal(err)
	}
	c.Put(owner, zone.NewNode(a, aaaa))
}

var sizes = []int{1_000, 100_000, 1_000_000}

var versions = map[int]*zone.Version{} // the benchmarks' zones, by size

func hostsOnce(tb testing.TB, n int) *zone.Version {
	if versions[n] == nil {
		versions[n] = hosts(tb, n)
	}
	return versions[n]
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range sizes {
		v := hostsOnce(b, n)
		const asked = 1 << 14
		type question struct {
			text string
			name zone.Name
		}
		rng := rand.New(rand.NewPCG(1, 1))
		hit, miss := make([]question, asked), make([]question, asked)
		for i := range asked {
			text := hostName(rng.IntN(n))
			hit[i] = question{text, zone.MustName(text)}
			text = hostName(n + rng.IntN(n))
			miss[i] = question{text, zone.MustName(text)}
		}
		for _, c := range []struct {
			name  string
			asked []question
			typ   uint16
			dirty int // cuts and wildcards elsewhere in the zone
		}{{"A", hit, dns.TypeA, 0}, {"NODATA", hit, dns.TypeTXT, 0}, {"NXDOMAIN", miss, dns.TypeA, 0}, {"A,cuts", hit, dns.TypeA, 1}, {"NXDOMAIN,wildcard", miss, dns.TypeA, 1}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				v := v
				if c.dirty > 0 {
					d := v.Candidate()
					d.Put(zone.MustName("cut.dyn.example.org"), zone.NewNode(set(b, "cut.dyn.example.org. 60 IN NS ns.example.net.")))
					d.Put(zone.MustName("*.w.dyn.example.org"), zone.NewNode(set(b, "*.w.dyn.example.org. 60 IN A 192.0.2.1")))
					v = d.Version()
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					q := &c.asked[i%asked]
					a := v.Lookup(q.text, q.name, c.typ, false)
					if len(a.Answer)+len(a.Authority) == 0 {
						b.Fatal("no answer")
					}
				}
			})
		}
	}
}

// BenchmarkUpdate makes a new version that differs in one host: the cost of an
// update that comes alone.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := hostsOnce(b, n)
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			for b.Loop() {
				i := rng.IntN(n)
				owner := zone.MustName(hostName(i))
				old := v.Node(owner)
				c := v.Candidate()
				c.Put(owner, "")
				c.Put(owner, old)
				v = c.Version()
			}
		})
	}
}

// BenchmarkLoad fills a zone of a million hosts and reports what a host costs.
func BenchmarkLoad(b *testing.B) {
	const n = 1_000_000
	clear(versions)
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	var v *zone.Version
	for b.Loop() {
		v = hosts(b, n)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/n, "ns/host")
	b.ReportMetric((heap()-before)/n, "heap-B/host")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapObjects), "objects")
	took := make([]time.Duration, 7)
	for i := range took {
		start := time.Now()
		runtime.GC()
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/collection")
	runtime.KeepAlive(v)
}

// BenchmarkReadFile reads a zone file of 100,000 hosts.
func BenchmarkReadFile(b *testing.B) {
	const n = 100_000
	var text strings.Builder
	text.WriteString("$TTL 60\n@ SOA ns hostmaster 1 7200 900 1209600 60\n@ NS ns\n")
	for i := range n {
		fmt.Fprintf(&text, "%s A 192.0.2.%d\n%s AAAA 2001:db8::%x\n", hostName(i), i%256, hostName(i), i%65536)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := zone.ReadFile(strings.NewReader(text.String()), "zone", zone.MustName("dyn.example.org")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/n, "ns/host")
}

// BenchmarkDecodeNode checks a host as a store hands it over.
func BenchmarkDecodeNode(b *testing.B) {
	owner := zone.MustName(hostName(1))
	node := []byte(zone.NewNode(set(b, hostName(1)+" 60 A 192.0.2.1"), set(b, hostName(1)+" 60 AAAA 2001:db8::1")))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := zone.DecodeNode(owner, node); err != nil {
			b.Fatal(err)
		}
	}
}

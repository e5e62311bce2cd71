package zonedb_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

func sorted(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// TestReadersSeeWholeVersionsInOrder has writers that change an A and a TXT
// record together, and readers that must never see one without the other, nor an
// older version after a newer one.
func TestReadersSeeWholeVersionsInOrder(t *testing.T) {
	_, z := open(t, mem.New(), zonedb.Options{})
	const writers, rounds, readers = 8, 200, 4
	pair := func(w, n int) zone.Update {
		u := host(fmt.Sprintf("w%d", w), address(n))
		owner := u.Operations[0].Owner
		txt, err := zone.NewRRset(&dns.TXT{
			Hdr: dns.RR_Header{Name: owner.String(), Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60},
			Txt: []string{address(n)},
		})
		if err != nil {
			panic(err)
		}
		u.Operations = append(u.Operations, zone.ReplaceRRset(txt)...)
		return u
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reading, writing sync.WaitGroup
	for range readers {
		reading.Go(func() {
			last := z.Version().Serial()
			for ctx.Err() == nil {
				v := z.Version()
				if s := v.Serial(); s.Compare(last) == zone.Lower {
					t.Errorf("version %d seen after %d", s, last)
					return
				} else {
					last = s
				}
				for w := range writers {
					owner := zone.MustName(fmt.Sprintf("w%d.example.org", w))
					txt, ok := v.RRset(owner, dns.TypeTXT)
					a := has(v, fmt.Sprintf("w%d", w))
					if ok != (a != "") || ok && !strings.Contains(txt.RRs()[0].String(), `"`+a+`"`) {
						t.Errorf("torn version: A %q beside %v", a, txt.RRs())
						return
					}
				}
			}
		})
	}
	serials := make([][]zone.Serial, writers)
	for w := range writers {
		writing.Go(func() {
			for n := range rounds {
				r, err := z.Update(ctx, pair(w, n))
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				serials[w] = append(serials[w], r.Serial)
				if got := has(z.Version(), fmt.Sprintf("w%d", w)); got != address(n) {
					t.Errorf("writer %d: acknowledged %s but sees %s", w, address(n), got)
				}
			}
		})
	}
	writing.Wait()
	cancel()
	reading.Wait()
	seen := make(map[zone.Serial]bool)
	for _, list := range serials {
		for _, s := range list {
			if seen[s] {
				t.Fatalf("serial %d was given to two changesets", s)
			}
			seen[s] = true
		}
	}
}

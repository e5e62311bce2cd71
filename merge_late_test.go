package ddns

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// TestMergeAfterAReload is about the files of a configuration that has come to
// serve: it cannot be refused for them any more.
func TestMergeAfterAReload(t *testing.T) {
	origin := zone.MustName("dyn.example.org")
	spec := func(extra string) zonedb.Spec {
		text := "@ 60 SOA ns1 h 1 1 1 1 1\n@ 60 NS ns1\nns1 60 A 192.0.2.1\n" + extra
		sets, err := zone.ReadFile(strings.NewReader(text), "test.zone", origin)
		if err != nil {
			t.Fatal(err)
		}
		return zonedb.Spec{Origin: origin, Static: sets, Source: "file"}
	}
	faulty := storetest.NewFaulty(mem.New())
	generation := resident.NewGeneration()
	lease, err := stores.Acquire(generation, t.Name(), func() (*zonedb.DB, func() error, error) {
		db, err := zonedb.Open(faulty, zonedb.Options{})
		return db, db.Close, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = generation.Drop() })
	if _, err := lease.Value().Attach(t.Context(), []zonedb.Spec{spec("")}); err != nil {
		t.Fatal(err)
	}
	i := &instance{cfg: &config{zones: []zone.Name{origin}}, store: lease, specs: []zonedb.Spec{spec("www 60 A 192.0.2.2\n")}}
	has := func(name string) bool {
		_, ok := lease.Value().Zone(origin).Version().RRset(zone.MustName(name), dns.TypeA)
		return ok
	}
	unmerged := func() float64 {
		families, err := prometheus.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "coredns_ddns_reloads_total" && m.GetLabel()[0].GetValue() == "unmerged" {
					return m.GetCounter().GetValue()
				}
			}
		}
		return 0
	}

	before := unmerged()
	faulty.Inject(storetest.Commit, storetest.Fault{Times: 1})
	i.mergeLate()
	if !has("www.dyn.example.org") || unmerged() != before {
		t.Errorf("a store that fails once: merged=%t unmerged=%v", has("www.dyn.example.org"), unmerged()-before)
	}

	i.specs = []zonedb.Spec{spec("ftp 60 A 192.0.2.2\n")}
	i.specs[0].Static = i.specs[0].Static[1:] // without SOA, should a file get past the check at the start
	i.mergeLate()
	if has("ftp.dyn.example.org") || unmerged() != before+1 {
		t.Errorf("no SOA: merged=%t unmerged=%v, want it said", has("ftp.dyn.example.org"), unmerged()-before)
	}
}

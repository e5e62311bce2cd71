package ddns_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// gauge is a metric of the plugin with one label; ok is false when it is not shown.
func gauge(t *testing.T, name, value string) (got float64, ok bool) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "coredns_ddns_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == value {
				return m.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

func TestStoreIsShownWritableAfterAReloadToAnotherFile(t *testing.T) {
	s := start(t, options{})
	if err := s.reload(strings.Replace(s.corefile, "bolt ddns.db", "bolt other.db", 1)); err != nil {
		t.Fatal(err)
	}
	s.update("laptop", "192.0.2.7")
	if got, _ := gauge(t, "store_writable", "bolt"); got != 1 {
		t.Errorf("got store_writable %v while updates are taken", got)
	}
	s.stop()
	if got, _ := gauge(t, "store_writable", "bolt"); got != 0 {
		t.Errorf("got store_writable %v after the end", got)
	}
}

func TestZoneThatIsGoneHasNoMetrics(t *testing.T) {
	s := start(t, options{})
	two := strings.Replace(s.corefile, "ddns {", "ddns dyn.example.org gone.example.org {", 1)
	if err := s.reload(two); err != nil {
		t.Fatal(err)
	}
	names := []string{"zone_serial", "zone_records", "zone_names", "journal_changesets"}
	for _, n := range names {
		if _, ok := gauge(t, n, "gone.example.org."); !ok {
			t.Errorf("%s of a zone that is served is not shown", n)
		}
	}
	if err := s.reload(strings.Replace(two, " gone.example.org", "", 1)); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if v, ok := gauge(t, n, "gone.example.org."); ok {
			t.Errorf("%s is still shown as %v", n, v)
		}
		if _, ok := gauge(t, n, "dyn.example.org."); !ok {
			t.Errorf("%s of the zone that stays is not shown", n)
		}
	}
	if matches, _ := filepath.Glob(filepath.Join(s.dir, "*.db")); len(matches) != 1 {
		t.Errorf("got %v", matches)
	}
}

func TestJournalLimitOfAReloadCounts(t *testing.T) {
	s := start(t, options{store: "memory"})
	for n := range 300 {
		s.update("h"+strconv.Itoa(n), "192.0.2.7")
	}
	if got, _ := gauge(t, "journal_changesets", "dyn.example.org."); got < 300 {
		t.Fatalf("got %v changesets with the default limit, want all 300", got)
	}
	if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy policy\n limit journal 5", 1)); err != nil {
		t.Fatal(err)
	}
	s.update("last", "192.0.2.7")
	if got, _ := gauge(t, "journal_changesets", "dyn.example.org."); got > 10 {
		t.Errorf("got %v changesets, want about 5", got)
	}
}

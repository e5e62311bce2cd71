package zonedb_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// file is a Spec whose records are read when they are needed, and how often they were.
func file(t *testing.T, o zone.Name, digest, text string) (s zonedb.Spec, reads *int) {
	reads = new(int)
	return zonedb.Spec{Origin: o, Digest: digest, Source: "file", Read: func() ([]zone.RRset, error) {
		*reads++
		return zone.ReadFile(strings.NewReader(text), "test.zone", o)
	}}, reads
}

func TestFileIsReadOnlyWhenItsDigestHasChanged(t *testing.T) {
	inner := mem.New()
	first, reads := file(t, origin, "one", zoneText)
	db, err := zonedb.Open(keepOpen{inner}, zonedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Attach(t.Context(), []zonedb.Spec{first}); err != nil || *reads == 0 {
		t.Fatalf("creating it: %v, read %d times", err, *reads)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	db, err = zonedb.Open(keepOpen{inner}, zonedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	same, reads := file(t, origin, "one", "not a zone")
	specs := []zonedb.Spec{same}
	if _, err := db.Attach(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"Prepare": db.Prepare(specs), "Check": db.Check(specs)} {
		if err != nil {
			t.Errorf("%s of the same digest: %v", what, err)
		}
	}
	if m, err := db.Merge(t.Context(), specs); err != nil || m[0].Changed || *reads != 0 {
		t.Errorf("merging the same digest: %+v, %v, read %d times", m, err, *reads)
	}

	other, reads := file(t, origin, "two", zoneText+"www 300 A 192.0.2.80\n")
	specs = []zonedb.Spec{other}
	m, err := db.Merge(t.Context(), specs)
	if err != nil || !m[0].Changed || *reads == 0 || has(db.Zone(origin).Version(), "www") != "192.0.2.80" {
		t.Errorf("merging another digest: %+v, %v, read %d times", m, err, *reads)
	}
	*reads = 0
	if m, err := db.Merge(t.Context(), specs); err != nil || m[0].Changed || *reads != 0 {
		t.Errorf("merging it again: %+v, %v, read %d times", m, err, *reads)
	}
}

func TestFileThatCannotBeReadChangesNothing(t *testing.T) {
	inner := mem.New()
	db, err := zonedb.Open(keepOpen{inner}, zonedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	elsewhere := zone.MustName("example.net")
	good, _ := file(t, origin, "one", zoneText)
	bad, _ := file(t, elsewhere, "one", "@ 60 SOA\n")
	broken := new(zone.FileError)
	if _, err := db.Attach(t.Context(), []zonedb.Spec{good, bad}); !errors.As(err, &broken) || broken.Line != 1 {
		t.Errorf("attaching: %v, want the file's error", err)
	}
	if zones, err := inner.Zones(); err != nil || len(zones) != 0 || db.Zone(origin) != nil || db.Zone(elsewhere) != nil {
		t.Errorf("%v is stored, %v and %v attached: want none", zones, db.Zone(origin), db.Zone(elsewhere))
	}

	mended, _ := file(t, elsewhere, "one", zoneText)
	if _, err := db.Attach(t.Context(), []zonedb.Spec{good, mended}); err != nil {
		t.Fatal(err)
	}
	serial := db.Zone(origin).Version().Serial()
	more, _ := file(t, origin, "two", zoneText+"www 300 A 192.0.2.80\n")
	bad.Digest = "two"
	specs := []zonedb.Spec{more, bad}
	_, merged := db.Merge(t.Context(), specs)
	for what, err := range map[string]error{"Prepare": db.Prepare(specs), "Check": db.Check(specs), "Merge": merged} {
		if !errors.As(err, &broken) {
			t.Errorf("%s: %v, want the file's error", what, err)
		}
	}
	if got := db.Zone(origin).Version().Serial(); got != serial {
		t.Errorf("the other zone went from %d to %d", serial, got)
	}
}

package zone_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/coredns-ddns/ddns/internal/zone"
)

var rewrite = flag.Bool("update", false, "rewrite the expectations in testdata/update")

const caseOrigin = "example.org."

// TestUpdateCases runs testdata/update: one file per rule, named after the section
// of RFC 2136 (or another document) that has it. Files in an archive:
//
//	zone        records that updates may change
//	static      records of the operator's file
//	grants      lines of NAME TYPE...; without this file, everything is permitted
//	limits      lines of a field of zone.Limits and a number
//	now         Unix time of the update, 1 by default
//	update      the message; see readNsupdate
//	file        instead of update: what the operator's file says next
//	want        RCODE and code of the error
//	changeset   serials, names taken over, deleted and added records
//	result      the zone afterwards, where that differs
func TestUpdateCases(t *testing.T) {
	files, err := filepath.Glob("testdata/update/*.txtar")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d cases, %v: they are not where they should be", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runUpdateCase(t, a)
			want := map[string]string{}
			for _, f := range a.Files {
				want[f.Name] = string(f.Data)
			}
			names := []string{"want", "changeset", "result"}
			if *rewrite {
				a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return slices.Contains(names, f.Name) })
				for _, n := range names {
					if got[n] != "" {
						a.Files = append(a.Files, txtar.File{Name: n, Data: []byte(got[n])})
					}
				}
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for _, n := range names {
				if got[n] != want[n] {
					t.Errorf("%s:\ngot\n%s\nwant\n%s", n, got[n], want[n])
				}
			}
		})
	}
}

func runUpdateCase(t *testing.T, a *txtar.Archive) map[string]string {
	t.Helper()
	in := map[string]string{}
	for _, f := range a.Files {
		in[f.Name] = string(f.Data)
	}
	origin := zone.MustName(caseOrigin)
	c := zone.NewVersion(origin).Candidate()
	for owner, sets := range byOwner(append(zoneSets(t, in["zone"], false), zoneSets(t, in["static"], true)...)) {
		c.Put(owner, zone.NewNode(sets...))
	}
	before := dump(c)

	now := uint32(1)
	if s := strings.TrimSpace(in["now"]); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		now = uint32(n)
	}
	var u zone.Update
	var taken []zone.Name
	var err error
	if text, ok := in["file"]; ok {
		u, taken = zone.StaticUpdate(c, zoneSets(t, text, false))
	} else {
		u, err = zone.ParseUpdate(readNsupdate(t, caseOrigin, in["update"]), origin)
	}
	u.Limits = readLimits(t, in["limits"])
	if text, ok := in["grants"]; ok {
		u.Permission = readGrants(t, text)
	}
	var cs *zone.Changeset
	if err == nil {
		cs, err = c.Plan(u, now)
	}
	if after := dump(c); after != before {
		t.Errorf("planning changed the candidate:\n%s\nwas\n%s", after, before)
	}

	got := map[string]string{"want": "NOERROR\n"}
	if err != nil {
		var e *zone.Error
		if !errors.As(err, &e) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		if cs != nil {
			t.Errorf("a changeset beside the error %v", err)
		}
		got["want"] = fmt.Sprintf("%s %s\n; %s\n", dns.RcodeToString[e.Rcode], e.Code, e.Text)
		return got
	}
	if cs == nil {
		return got
	}
	checkChangeset(t, c, cs)
	got["changeset"] = describe(cs, taken)
	if err := c.Apply(cs); err != nil {
		t.Fatalf("applying: %v", err)
	}
	got["result"] = dump(c)
	return got
}

// checkChangeset holds a changeset that follows from c to the laws.
func checkChangeset(t testing.TB, c *zone.Candidate, cs *zone.Changeset) {
	t.Helper()
	v := c.Version()
	work := v.Candidate()
	before := dump(work)
	if err := work.Apply(cs); err != nil {
		t.Fatalf("applying: %v\n%s", err, describe(cs, nil))
	}
	after := dump(work)
	from, to := cs.FromSerial(), cs.Serial()
	if to == 0 || !cs.From.Empty() && !to.Newer(from) {
		t.Errorf("serial %d follows %d", to, from)
	}
	if after == before {
		t.Errorf("a changeset that changes nothing:\n%s", describe(cs, nil))
	}
	b := cs.Encode()
	again, err := zone.DecodeChangeset(c.Origin(), b)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	if describe(again, nil) != describe(cs, nil) || again.Cause != cs.Cause {
		t.Errorf("decoded\n%s\nencoded\n%s", describe(again, nil), describe(cs, nil))
	}
	if string(again.Encode()) != string(b) {
		t.Errorf("encoding is not stable")
	}
	if !cs.From.Empty() {
		if err := work.Apply(cs.Inverse()); err != nil {
			t.Fatalf("undoing: %v", err)
		}
		if got := dump(work); got != before {
			t.Errorf("undone:\n%s\nwas\n%s", got, before)
		}
	}
}

// zoneSets reads records as zone file text.
func zoneSets(t testing.TB, text string, static bool) []zone.RRset {
	t.Helper()
	type key struct {
		owner string
		typ   uint16
	}
	rrs := map[key][]dns.RR{}
	var order []key
	p := dns.NewZoneParser(strings.NewReader(text), caseOrigin, "")
	p.SetDefaultTTL(3600)
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		k := key{strings.ToLower(rr.Header().Name), rr.Header().Rrtype}
		if rrs[k] == nil {
			order = append(order, k)
		}
		rrs[k] = append(rrs[k], rr)
	}
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	sets := make([]zone.RRset, 0, len(order))
	for _, k := range order {
		set, err := zone.NewRRset(rrs[k]...)
		if err != nil {
			t.Fatal(err)
		}
		set.Static = static
		sets = append(sets, set)
	}
	return sets
}

func byOwner(sets []zone.RRset) map[zone.Name][]zone.RRset {
	m := map[zone.Name][]zone.RRset{}
	for _, s := range sets {
		m[s.Owner] = append(m[s.Owner], s)
	}
	return m
}

// dump is all of a zone as text, in canonical order of the names.
func dump(c *zone.Candidate) string {
	nodes := maps.Collect(c.All())
	var b strings.Builder
	for _, owner := range slices.SortedFunc(maps.Keys(nodes), zone.Name.Compare) {
		for set := range nodes[owner].RRsets(owner) {
			writeSet(&b, "", set)
		}
	}
	return b.String()
}

func writeSet(b *strings.Builder, prefix string, set zone.RRset) {
	for _, rr := range set.RRs() {
		b.WriteString(prefix + strings.ReplaceAll(rr.String(), "\t", " "))
		if set.Static {
			b.WriteString(" ; static")
		}
		b.WriteByte('\n')
	}
}

// describe is a changeset as text.
func describe(cs *zone.Changeset, taken []zone.Name) string {
	var b strings.Builder
	fmt.Fprintf(&b, "serial %d -> %d\n", cs.FromSerial(), cs.Serial())
	for _, n := range taken {
		fmt.Fprintf(&b, "taken over: %s\n", n)
	}
	writeSet(&b, "< ", cs.From)
	writeSet(&b, "> ", cs.To)
	for _, s := range cs.Deleted {
		writeSet(&b, "- ", s)
	}
	for _, s := range cs.Added {
		writeSet(&b, "+ ", s)
	}
	return b.String()
}

// grants is a Permission made of lines of NAME TYPE...
type grants map[zone.Name][]uint16

func readGrants(t testing.TB, text string) grants {
	t.Helper()
	g := grants{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		n := zone.MustName(absolute(caseOrigin, f[0]))
		for _, typ := range f[1:] {
			g[n] = append(g[n], rrtype(t, typ))
		}
	}
	return g
}

func (g grants) Knows(owner zone.Name) bool { return len(g[owner]) > 0 }

func (g grants) Permits(owner zone.Name, typ uint16) bool { return slices.Contains(g[owner], typ) }

func readLimits(t testing.TB, text string) (l zone.Limits) {
	t.Helper()
	for line := range strings.Lines(text) {
		var name string
		var n int
		if _, err := fmt.Sscanf(line, "%s %d", &name, &n); err != nil {
			t.Fatalf("limit %q: %v", line, err)
		}
		switch name {
		case "Names":
			l.Names = n
		case "RecordsPerSet":
			l.RecordsPerSet = n
		case "RRsetsPerName":
			l.RRsetsPerName = n
		case "RecordsPerZone":
			l.RecordsPerZone = n
		default:
			t.Fatalf("no such limit: %s", name)
		}
	}
	return l
}

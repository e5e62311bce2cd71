package zone_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// one makes an RRset of records in a zone file's syntax, relative to caseOrigin.
func one(t testing.TB, static bool, text string) zone.RRset {
	t.Helper()
	sets := zoneSets(t, text, static)
	if len(sets) != 1 {
		t.Fatalf("%d RRsets in %q", len(sets), text)
	}
	return sets[0]
}

func add(set zone.RRset) zone.Operation {
	return zone.Operation{Kind: zone.AddRecords, Owner: set.Owner, Type: set.Type, RRset: set}
}

// TestPlanOfProgram has updates that no DNS message can carry, from callers within.
func TestPlanOfProgram(t *testing.T) {
	www, outside := zone.MustName("www.example.org"), zone.MustName("www.example.net")
	inside := one(t, false, "new 60 A 192.0.2.9")
	foreign := inside
	foreign.Owner = outside
	two := one(t, true, "new 60 CNAME a\nnew 60 CNAME b")
	for _, tt := range []struct {
		name  string
		u     zone.Update
		rcode int
		code  string // "" when there is no error
		text  string // part of the error
	}{
		{"an owner outside the zone is NOTZONE", zone.Update{Operations: []zone.Operation{add(foreign)}}, dns.RcodeNotZone, zone.CodeNotInZone, "www.example.net. is not in zone example.org."},
		{"deleting a name outside the zone is NOTZONE", zone.Update{Operations: []zone.Operation{{Kind: zone.DeleteName, Owner: outside}}}, dns.RcodeNotZone, zone.CodeNotInZone, "www.example.net."},
		{"a prerequisite outside the zone is NOTZONE", zone.Update{Prerequisites: []zone.Prerequisite{{Kind: zone.NameNotInUse, Owner: outside}}}, dns.RcodeNotZone, zone.CodeNotInZone, "www.example.net."},
		{"a kind of operation that does not exist is refused", zone.Update{Operations: []zone.Operation{{Kind: zone.DeleteRecords + 1, Owner: www, Type: dns.TypeA}}}, dns.RcodeFormatError, zone.CodeMalformed, "unknown kind 4"},
		{"a kind of prerequisite that does not exist is refused", zone.Update{Prerequisites: []zone.Prerequisite{{Kind: zone.NameNotInUse + 1, Owner: www}}}, dns.RcodeFormatError, zone.CodePrerequisite, "unknown kind 5"},
		{"a metatype is refused", zone.Update{Operations: []zone.Operation{{Kind: zone.DeleteRRset, Owner: www, Type: dns.TypeANY}}}, dns.RcodeFormatError, zone.CodeMalformed, "ANY is not a type of records"},
		{"an SOA without data is refused", zone.Update{Operations: []zone.Operation{{Kind: zone.AddRecords, Owner: zone.MustName(caseOrigin), Type: dns.TypeSOA}}}, dns.RcodeFormatError, zone.CodeMalformed, "not one whole SOA"},
		{"two SOAs at once are refused", zone.Update{Operations: []zone.Operation{add(one(t, false, "@ 60 SOA a a 20 1 1 1 1\n@ 60 SOA b b 20 1 1 1 1"))}}, dns.RcodeFormatError, zone.CodeMalformed, "not one whole SOA"},
		{"two CNAMEs at once are refused", zone.Update{Operations: []zone.Operation{add(two)}}, dns.RcodeRefused, zone.CodeInvariant, "more than one CNAME"},
		{"adding no record is nothing", zone.Update{Operations: []zone.Operation{{Kind: zone.AddRecords, Owner: www, Type: dns.TypeA}}}, 0, "", ""},
		{"no operation is nothing", zone.Update{}, 0, "", ""},
		{"a file beside dynamic records that it does not delete is refused", zone.Update{Static: true, Operations: []zone.Operation{add(one(t, true, "www 60 AAAA 2001:db8::1"))}}, dns.RcodeRefused, zone.CodeInvariant, "operator's file and others"},
		{"a file with a CNAME beside other data is refused", zone.Update{Static: true, Operations: []zone.Operation{add(one(t, true, "new 60 CNAME a")), add(one(t, true, "new 60 A 192.0.2.1"))}}, dns.RcodeRefused, zone.CodeInvariant, "CNAME beside other data"},
		{"a file with an SOA below the apex is refused", zone.Update{Static: true, Operations: []zone.Operation{add(one(t, true, "new 60 SOA a a 20 1 1 1 1"))}}, dns.RcodeRefused, zone.CodeInvariant, "not the apex"},
		{"an RRset beyond what can be stored is refused", zone.Update{Operations: tooMuch(t)}, dns.RcodeRefused, zone.CodeLimit, "at most 60000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cs, err := candidateOf(t, updateZone).Plan(tt.u, 1)
			if cs != nil {
				t.Errorf("a changeset: %s", describe(cs, nil))
			}
			if tt.code == "" {
				if err != nil {
					t.Errorf("got %v, want nothing", err)
				}
				return
			}
			var e *zone.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want a *zone.Error", err)
			}
			if e.Rcode != tt.rcode || e.Code != tt.code || !strings.Contains(e.Text, tt.text) {
				t.Errorf("got %s %s %q, want %s %s %q", dns.RcodeToString[e.Rcode], e.Code, e.Text, dns.RcodeToString[tt.rcode], tt.code, tt.text)
			}
		})
	}
}

// tooMuch adds, in two steps, more to one RRset than it may hold.
func tooMuch(t *testing.T) (ops []zone.Operation) {
	t.Helper()
	for _, c := range []string{"a", "b"} {
		text := ""
		for i := range 140 {
			text += "new 60 TXT \"" + strings.Repeat(c, 100+i) + "\" \"" + strings.Repeat(c, 100) + "\"\n"
		}
		ops = append(ops, add(one(t, false, text)))
	}
	return ops
}

// TestSeedUpdate is a zone made from a seed: dynamic from the start, apex included.
func TestSeedUpdate(t *testing.T) {
	c := zone.NewVersion(zone.MustName(caseOrigin)).Candidate()
	u := zone.SeedUpdate(zoneSets(t, updateZone, true))
	u.Cause = zone.Cause{Source: "seed", Unix: 1790000000}
	cs, err := c.Plan(u, 1790000000)
	if err != nil {
		t.Fatal(err)
	}
	checkChangeset(t, c, cs)
	if err := c.Apply(cs); err != nil {
		t.Fatal(err)
	}
	if cs.Cause != u.Cause || !cs.From.Empty() || cs.Serial() != 1790000000 {
		t.Errorf("cause %+v, from %v, serial %d", cs.Cause, cs.From, cs.Serial())
	}
	want := strings.Replace(dump(candidateOf(t, updateZone)), " 10 3600", " 1790000000 3600", 1)
	if got := dump(c); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if n := c.Counts().Static; n != 0 {
		t.Errorf("%d static records", n)
	}
	if rcode, cs := planMessage(t, c, readNsupdate(t, caseOrigin, "update add @ 60 TXT x"), 1); rcode != dns.RcodeSuccess || cs == nil {
		t.Errorf("an update of the apex: %s, %v", dns.RcodeToString[rcode], cs)
	}
}

// TestFirstSerial is the serial that a zone starts from: the later of the file's
// and the time, never 0.
func TestFirstSerial(t *testing.T) {
	for _, tt := range []struct{ file, now, want uint32 }{
		{0, 0, 1},
		{10, 1790000000, 1790000000},
		{2026112101, 1790000000, 2026112101},
		{1 << 31, 0, 1<<31 + 0},              // just newer than the 1 that time 0 stands for
		{1<<31 + 1, 1, 1},                    // without order: the time
		{4000000000, 1790000000, 1790000000}, // further ahead than RFC 1982 can see: behind
		{1790000000, 2200000000, 2200000000}, // after 2038
		{1<<32 - 1, 1<<32 - 2, 1<<32 - 1},    // near the wrap
		{0, 1<<32 - 1, 1},                    // across it
	} {
		c := zone.NewVersion(zone.MustName(caseOrigin)).Candidate()
		soa := one(t, false, "@ 60 SOA a a "+itoa(tt.file)+" 1 1 1 1")
		cs, err := c.Plan(zone.SeedUpdate([]zone.RRset{soa, one(t, false, "@ 60 NS ns.example.net.")}), tt.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := uint32(cs.Serial()); got != tt.want {
			t.Errorf("file %d, now %d: got %d, want %d", tt.file, tt.now, got, tt.want)
		}
	}
}

// TestReplaceRRset is what most protocols ask for.
func TestReplaceRRset(t *testing.T) {
	c := candidateOf(t, updateZone)
	same := one(t, false, "www 300 A 192.0.2.2\nwww 300 A 192.0.2.1")
	if cs, err := c.Plan(zone.Update{Operations: zone.ReplaceRRset(same)}, 1); cs != nil || err != nil {
		t.Errorf("what is there already: %v, %v", cs, err)
	}
	cs, err := c.Plan(zone.Update{Operations: zone.ReplaceRRset(one(t, false, "www 300 A 192.0.2.2\nwww 300 A 192.0.2.3"))}, 1)
	if err != nil {
		t.Fatal(err)
	}
	checkChangeset(t, c, cs)
	got := ""
	for line := range strings.Lines(describe(cs, nil)) {
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			got += line
		}
	}
	if want := "- www.example.org. 300 IN A 192.0.2.1\n+ www.example.org. 300 IN A 192.0.2.3\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestSetsOfRecords adds and deletes random parts of an RRset, in one operation
// each, and compares with sets.
func TestSetsOfRecords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{`""`, `"a"`, `"aa"`, `"a" "a"`, `"b"`, `"ab"`, `"` + strings.Repeat("a", 255) + `"`}
	part := func() (set zone.RRset, has map[string]bool) {
		has = map[string]bool{}
		text := ""
		for _, s := range texts {
			if r.IntN(2) == 0 {
				text += "new 60 TXT " + s + "\n"
			}
		}
		if text == "" {
			text = "new 60 TXT \"a\"\n"
		}
		set = one(t, false, text)
		for d := range set.Data() {
			has[d] = true
		}
		return set, has
	}
	for range 2000 {
		c := candidateOf(t, updateZone)
		old, hasOld := part()
		c.Put(old.Owner, zone.NewNode(old))
		set, has := part()
		kind := zone.AddRecords
		if r.IntN(2) == 0 {
			kind = zone.DeleteRecords
			for d := range has {
				delete(hasOld, d)
			}
		} else {
			for d := range has {
				hasOld[d] = true
			}
		}
		cs, err := c.Plan(zone.Update{Operations: []zone.Operation{{Kind: kind, Owner: set.Owner, Type: set.Type, RRset: set}}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if cs != nil {
			if err := c.Apply(cs); err != nil {
				t.Fatal(err)
			}
		}
		got, _ := c.RRset(set.Owner, set.Type)
		want := slices.Sorted(maps.Keys(hasOld))
		if !slices.Equal(slices.Collect(got.Data()), want) {
			t.Fatalf("kind %d of %q on %q: got %q, want %q", kind, slices.Collect(set.Data()), slices.Collect(old.Data()), slices.Collect(got.Data()), want)
		}
	}
}

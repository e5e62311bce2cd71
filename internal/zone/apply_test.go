package zone_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func soaOf(t testing.TB, serial string) zone.RRset {
	t.Helper()
	return set(t, "example.org. 3600 IN SOA ns.example.org. hostmaster.example.org. "+serial+" 7200 900 1209600 60")
}

const applyZone = "$TTL 300\n@ 3600 SOA ns hostmaster 7 7200 900 1209600 60\n@ NS ns\na A 192.0.2.1\na A 192.0.2.2\nb.ent TXT x\n"

func TestApply(t *testing.T) {
	a := func(lines ...string) zone.RRset {
		for i := range lines {
			lines[i] = "a.example.org. " + lines[i]
		}
		return set(t, lines...)
	}
	static := a("300 IN A 192.0.2.1")
	static.Static = true
	tests := []struct {
		name string
		cs   zone.Changeset
		want string // the nodes touched, or what the error says
	}{
		{"the serial alone", zone.Changeset{}, "example.org. 300 NS 3600 SOA 8"},
		{"a record goes", zone.Changeset{Deleted: []zone.RRset{a("300 IN A 192.0.2.1")}}, "a.example.org. 300 A 192.0.2.2; example.org. 300 NS 3600 SOA 8"},
		{"an RRset goes", zone.Changeset{Deleted: []zone.RRset{a("300 IN A 192.0.2.1", "300 IN A 192.0.2.2")}}, "a.example.org.; example.org. 300 NS 3600 SOA 8"},
		{"records are merged and take the TTL of what comes", zone.Changeset{Added: []zone.RRset{a("60 IN A 192.0.2.3")}}, "a.example.org. 60 A 192.0.2.1 192.0.2.2 192.0.2.3; example.org. 300 NS 3600 SOA 8"},
		{"records are replaced", zone.Changeset{Deleted: []zone.RRset{a("300 IN A 192.0.2.1")}, Added: []zone.RRset{a("300 IN A 192.0.2.9")}}, "a.example.org. 300 A 192.0.2.2 192.0.2.9; example.org. 300 NS 3600 SOA 8"},
		{"a record goes and comes again with another TTL", zone.Changeset{
			Deleted: []zone.RRset{a("300 IN A 192.0.2.1", "300 IN A 192.0.2.2")}, Added: []zone.RRset{a("60 IN A 192.0.2.1", "60 IN A 192.0.2.2")},
		}, "a.example.org. 60 A 192.0.2.1 192.0.2.2; example.org. 300 NS 3600 SOA 8"},
		{"an owner comes", zone.Changeset{Added: []zone.RRset{set(t, "n.example.org. 60 IN TXT x")}}, "n.example.org. 60 TXT; example.org. 300 NS 3600 SOA 8"},
		{"the apex changes with its SOA", zone.Changeset{Added: []zone.RRset{set(t, "example.org. 60 IN A 192.0.2.1")}}, "example.org. 60 A 192.0.2.1 300 NS 3600 SOA 8"},

		{"it starts at another serial", zone.Changeset{From: soaOf(t, "6")}, "from serial 6: the zone is at 7"},
		{"it starts at another SOA", zone.Changeset{From: set(t, "example.org. 60 IN SOA ns.example.org. hostmaster.example.org. 7 7200 900 1209600 60")}, "the zone is at 7"},
		{"it ends in no SOA of the zone", zone.Changeset{To: set(t, "a.example.org. 60 IN SOA a. b. 1 2 3 4 5")}, "its new SOA"},
		{"a record to delete is not there", zone.Changeset{Deleted: []zone.RRset{a("300 IN A 192.0.2.9")}}, "a record to delete that is not there"},
		{"an RRset to delete is not there", zone.Changeset{Deleted: []zone.RRset{a("300 IN TXT x")}}, "is not there"},
		{"what to delete has another TTL", zone.Changeset{Deleted: []zone.RRset{a("60 IN A 192.0.2.1")}}, "has another TTL"},
		{"what to delete has another mark", zone.Changeset{Deleted: []zone.RRset{static}}, "is not there"},
		{"a record to add is there", zone.Changeset{Added: []zone.RRset{a("300 IN A 192.0.2.1")}}, "a record to add that is there already"},
		{"an owner outside the zone", zone.Changeset{Added: []zone.RRset{set(t, "example.net. 60 IN TXT x")}}, "is not in the zone"},
		{"an SOA among the added", zone.Changeset{Added: []zone.RRset{soaOf(t, "9")}}, "is not for its lists"},
		{"an RRset without records", zone.Changeset{Added: []zone.RRset{{Owner: zone.MustName("a.example.org"), Type: 1}}}, "is not for its lists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := parse(t, applyZone, "example.org")
			before := maps.Collect(v.All())
			c := v.Candidate()
			if tt.cs.From.Empty() {
				tt.cs.From = v.SOA()
			}
			if tt.cs.To.Empty() {
				tt.cs.To = soaOf(t, "8")
			}
			err := c.Apply(&tt.cs)
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got %v, want %s", err, tt.want)
				}
				if got := maps.Collect(c.Version().All()); !maps.Equal(got, before) || c.Counts() != v.Counts() {
					t.Fatal("a changeset that fails changes the Candidate")
				}
				for owner := range c.Touched() {
					t.Fatalf("a changeset that fails touches %s", owner)
				}
				return
			}
			var got []string
			for owner, n := range c.Touched() {
				words := []string{owner.String()}
				for s := range n.RRsets(owner) {
					words = append(words, fmt.Sprint(s.TTL), zone.TypeString(s.Type))
					for _, rr := range s.RRs() {
						switch rr := rr.(type) {
						case *dns.A:
							words = append(words, rr.A.String())
						case *dns.SOA:
							words = append(words, fmt.Sprint(rr.Serial))
						}
					}
				}
				got = append(got, strings.Join(words, " "))
			}
			if s := strings.Join(got, "; "); s != tt.want {
				t.Fatalf("got  %s\nwant %s", s, tt.want)
			}
			if !maps.Equal(maps.Collect(v.All()), before) {
				t.Fatal("the version it came from changed")
			}
			if c.SOA() != tt.cs.To || c.Version().Serial() != 8 {
				t.Fatalf("SOA %v, serial %d", c.SOA(), c.Version().Serial())
			}
			if tt.name == "records are merged and take the TTL of what comes" {
				return // the one step whose inverse is another: a plan never makes it
			}
			if err := c.Apply(tt.cs.Inverse()); err != nil {
				t.Fatal(err)
			}
			if got := c.Version(); !maps.Equal(maps.Collect(got.All()), before) || got.Counts() != v.Counts() || got.SOA() != v.SOA() {
				t.Fatal("the inverse does not lead back")
			}
		})
	}
}

// A changeset of many owners, in no order, is one step all the same.
func TestApplyOfManyOwners(t *testing.T) {
	v := parse(t, applyZone, "example.org")
	cs := &zone.Changeset{From: v.SOA(), To: soaOf(t, "8")}
	for i := range 100 {
		host := string(rune('a'+i%26)) + strings.Repeat("x", i/26+1) + ".example.org. 60 IN "
		cs.Added = append(cs.Added, set(t, host+"A 192.0.2.1"))
		cs.Added = append([]zone.RRset{set(t, host+"TXT x")}, cs.Added...)
	}
	c := v.Candidate()
	if err := c.Apply(cs); err != nil {
		t.Fatal(err)
	}
	if got := c.Counts(); got.Names != v.Counts().Names+100 || got.Records != v.Counts().Records+200 {
		t.Errorf("counts %+v after %+v", got, v.Counts())
	}
	touched := 0
	for range c.Touched() {
		touched++
	}
	if touched != 101 {
		t.Errorf("%d owners touched", touched)
	}
	if err := c.Apply(cs.Inverse()); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(maps.Collect(c.Version().All()), maps.Collect(v.All())) {
		t.Error("the inverse does not lead back")
	}
}

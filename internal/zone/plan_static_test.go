package zone_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// TestStaticUpdateOfManyNames takes over names among others: the list is whole and
// in order, the operations cover what differs and nothing else.
func TestStaticUpdateOfManyNames(t *testing.T) {
	text, taken := "", []string{}
	for i := range 40 {
		text += fmt.Sprintf("h%02d 60 A 192.0.2.%d\nh%02d 60 TXT x\n", i, i, i)
	}
	c := candidateOf(t, updateZone+text)
	file := "@ 3600 SOA ns host 7 3600 600 86400 60\n@ 3600 NS ns1.example.net.\n"
	taken = append(taken, "example.org.")
	for i := 0; i < 40; i += 2 {
		file += fmt.Sprintf("h%02d 60 A 192.0.2.%d\n", i, i)
		taken = append(taken, fmt.Sprintf("h%02d.example.org.", i))
	}
	apply := func(file string) (names []string, n int) {
		u, over := zone.StaticUpdate(c, zoneSets(t, file, false))
		for _, n := range over {
			names = append(names, n.String())
		}
		cs, err := c.Plan(u, 1)
		if err != nil {
			t.Fatal(err)
		}
		if cs != nil {
			checkChangeset(t, c, cs)
			if err := c.Apply(cs); err != nil {
				t.Fatal(err)
			}
		}
		return names, len(u.Operations)
	}

	names, _ := apply(file)
	if !slices.Equal(names, taken) {
		t.Errorf("taken over %v, want %v", names, taken)
	}
	static := ""
	for line := range strings.Lines(dump(c)) {
		if strings.Contains(line, "; static") {
			static += line
		}
	}
	if n := strings.Count(static, "\n"); n != 22 || c.Counts().Static != 22 || strings.Contains(static, "TXT") {
		t.Errorf("%d static records, counted %d:\n%s", n, c.Counts().Static, static)
	}

	// The same again: only the SOA is looked at.
	if names, n := apply(file); names != nil || n != 1 {
		t.Errorf("the same file takes over %v in %d operations", names, n)
	}
	// Half of the names leave the file, one of them to an update at once.
	before := c.Counts()
	half := strings.Join(strings.SplitAfter(file, "\n")[:12], "")
	if names, _ := apply(half); names != nil {
		t.Errorf("a shorter file takes over %v", names)
	}
	if got, want := c.Counts().Static, 12; got != want || c.Counts().Names != before.Names-10 {
		t.Errorf("%d static records, want %d; %d names of %d", got, want, c.Counts().Names, before.Names)
	}
	if _, cs := planMessage(t, c, readNsupdate(t, caseOrigin, "update add h38 60 A 192.0.2.1"), 1); cs == nil {
		t.Error("a name that left the file is still refused")
	}
	// No file any more: what it held is dynamic, and nothing is lost.
	records := c.Counts().Records
	if names, _ := apply(""); names != nil || c.Counts().Static != 0 || c.Counts().Records != records {
		t.Errorf("without a file: taken over %v, %+v, want %d records", names, c.Counts(), records)
	}
	if _, cs := planMessage(t, c, readNsupdate(t, caseOrigin, "update delete h00"), 1); cs == nil {
		t.Error("a name of the file that is gone is still refused")
	}
}

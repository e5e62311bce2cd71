package zone_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// TestRandomUpdates sends sequences of random messages to a zone and to the model
// and holds both to each other and to the laws: after every message the same
// RCODE, records and serial; at the end, undoing leads back, the journal leads
// here, and the IXFR of the whole gives a secondary what an AXFR would.
func TestRandomUpdates(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	for seed := range uint64(seeds) {
		checkRandomUpdates(t, seed, 40)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// FuzzUpdates is TestRandomUpdates from any seed, serial and time.
func FuzzUpdates(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkRandomUpdates(t, seed, 10) })
}

// edgeSerials are where serial arithmetic goes wrong.
var edgeSerials = []uint32{0, 1, 10, 1<<31 - 2, 1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 2, 1<<32 - 1}

func checkRandomUpdates(t *testing.T, seed uint64, messages int) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2136))
	edge := func() uint32 { return pick(r, edgeSerials) + r.Uint32N(3) - 1 }
	first := edge()
	if first == 0 {
		first = 1 // no zone of ours is ever at 0
	}
	text := fmt.Sprintf("@ 3600 SOA ns1.example.net. host.example.net. %d 3600 600 86400 60\n", first) + updateZone[firstLine(updateZone):]
	c := candidateOf(t, text)
	start := c.Version()
	z := newModel(caseOrigin, transferred(start))
	g := &updates{r: r, odd: true, serials: func() uint32 {
		if r.IntN(2) == 0 {
			return z.serial() + uint32(r.IntN(5)) - 2
		}
		return edge()
	}}

	var chain []*zone.Changeset
	for range messages {
		text, now := g.text(), edge()
		m := readNsupdate(t, caseOrigin, text)
		before := z.String()
		want := z.update(m, now)
		got, cs := planMessage(t, c, m, now)
		report := func() string { return fmt.Sprintf("zone\n%s\nmessage at %d\n%s", before, now, text) }
		if got != want {
			t.Errorf("got %s, want %s\n%s", dns.RcodeToString[got], dns.RcodeToString[want], report())
			return
		}
		if (cs != nil) != (z.String() != before) {
			t.Errorf("changed: %v, want %v\n%s", cs != nil, z.String() != before, report())
			return
		}
		if cs != nil {
			checkChangeset(t, c, cs)
			if err := c.Apply(cs); err != nil {
				t.Errorf("applying: %v\n%s", err, report())
				return
			}
			chain = append(chain, cs)
		}
		if have := newModel(caseOrigin, transferred(c.Version())).String(); have != z.String() {
			t.Errorf("got\n%s\nwant\n%s\n%s", have, z, report())
			return
		}
		if t.Failed() {
			t.Log(report())
			return
		}
	}
	checkChain(t, start, c.Version(), chain)
}

// checkChain holds a chain of changesets between two versions to the laws.
func checkChain(t *testing.T, start, end *zone.Version, chain []*zone.Changeset) {
	t.Helper()
	journal := start.Candidate()
	for _, cs := range chain {
		again, err := zone.DecodeChangeset(start.Origin(), cs.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if err := journal.Apply(again); err != nil {
			t.Fatalf("replaying the journal: %v", err)
		}
	}
	if got, want := dump(journal), dump(end.Candidate()); got != want {
		t.Errorf("the journal leads to\n%s\nnot to\n%s", got, want)
	}
	for _, cs := range slices.Backward(chain) {
		if err := journal.Apply(cs.Inverse()); err != nil {
			t.Fatalf("undoing: %v", err)
		}
	}
	if got, want := dump(journal), dump(start.Candidate()); got != want {
		t.Errorf("undoing leads to\n%s\nnot to\n%s", got, want)
	}
	for i := range chain { // from every version on the way
		from := start.Candidate()
		for _, cs := range chain[:i] {
			if err := from.Apply(cs); err != nil {
				t.Fatal(err)
			}
		}
		secondary := newModel(caseOrigin, transferred(from.Version()))
		if err := secondary.ixfr(slices.Collect(zone.IXFR(end.SOA(), chain[i:]))); err != nil {
			t.Fatalf("IXFR from %d: %v", chain[i].FromSerial(), err)
		}
		if got, want := secondary.String(), newModel(caseOrigin, transferred(end)).String(); got != want {
			t.Errorf("IXFR from %d leads to\n%s\nAXFR to\n%s", chain[i].FromSerial(), got, want)
		}
	}
}

// planMessage is what a server does with a message.
func planMessage(t testing.TB, c *zone.Candidate, m *dns.Msg, now uint32) (rcode int, cs *zone.Changeset) {
	t.Helper()
	u, err := zone.ParseUpdate(m, c.Origin())
	if err == nil {
		cs, err = c.Plan(u, now)
	}
	if err != nil {
		var e *zone.Error
		if !errors.As(err, &e) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		return e.Rcode, nil
	}
	return dns.RcodeSuccess, cs
}

func candidateOf(t testing.TB, text string) *zone.Candidate {
	t.Helper()
	c := zone.NewVersion(zone.MustName(caseOrigin)).Candidate()
	for owner, sets := range byOwner(zoneSets(t, text, false)) {
		c.Put(owner, zone.NewNode(sets...))
	}
	return c
}

// transferred is a version as AXFR sends it, without the second SOA.
func transferred(v *zone.Version) []dns.RR {
	rrs := slices.Collect(v.AXFR())
	return rrs[:len(rrs)-1]
}

func firstLine(s string) int {
	for i := range s {
		if s[i] == '\n' {
			return i + 1
		}
	}
	return len(s)
}

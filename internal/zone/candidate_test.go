package zone_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// set makes an RRset of lines in zone file syntax.
func set(t testing.TB, lines ...string) zone.RRset {
	t.Helper()
	var rrs []dns.RR
	for _, l := range lines {
		rr, err := dns.NewRR(l)
		if err != nil || rr == nil {
			t.Fatalf("record %q: %v", l, err)
		}
		rrs = append(rrs, rr)
	}
	s, err := zone.NewRRset(rrs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestVersionFollowsAModel(t *testing.T) {
	origin := zone.MustName("example.org")
	fair := fnv.New64a()
	for name, hash := range map[string]func(zone.Name) uint64{
		"a good hash": func(n zone.Name) uint64 {
			fair.Reset()
			fair.Write([]byte(n))
			return fair.Sum64() * 0x9e3779b97f4a7c15
		},
		"all owners collide":              func(zone.Name) uint64 { return 0x123456789abcdef },
		"a few hashes":                    func(n zone.Name) uint64 { return uint64(len(n) % 5) },
		"hashes that differ at the end":   func(n zone.Name) uint64 { return uint64(n[1]) << 59 },
		"hashes that differ at the start": func(n zone.Name) uint64 { return uint64(n[1]) },
	} {
		t.Run(name, func(t *testing.T) { followModel(t, zone.NewVersionHashing(origin, hash)) })
	}
	t.Run("the real hash", func(t *testing.T) { followModel(t, zone.NewVersion(origin)) })
}

// followModel makes random edits through candidates that are frozen, left and taken up
// again, and compares all versions, old ones too, with maps at the end.
func followModel(t *testing.T, v *zone.Version) {
	rng := rand.New(rand.NewPCG(1, 2))
	model := map[zone.Name]zone.Node{}
	type frozen struct {
		v     *zone.Version
		model map[zone.Name]zone.Node
	}
	var past []frozen
	c := v.Candidate()
	for i := range 6000 {
		name := "example.org"
		for range rng.IntN(4) {
			name = fmt.Sprintf("%c.%s", 'a'+rng.IntN(12), name)
		}
		owner := zone.MustName(name)
		if rng.IntN(3) == 0 {
			c.Put(owner, "")
			delete(model, owner)
		} else {
			n := zone.NewNode(set(t, fmt.Sprintf("%s. 60 A 192.0.2.%d", name, rng.IntN(256))))
			c.Put(owner, n)
			model[owner] = n
		}
		if i%200 == 0 {
			m := map[zone.Name]zone.Node{}
			for k, n := range model {
				m[k] = n
			}
			past = append(past, frozen{c.Version(), m})
			if i%600 == 0 {
				c = past[len(past)-1].v.Candidate()
			}
		}
	}
	for i, f := range past {
		want := zone.Counts{}
		names := map[zone.Name]bool{} // with those that only lie above an owner
		for owner := range f.model {
			want.Names++
			want.RRsets++
			want.Records++
			names[owner] = true
			for n := owner; n != v.Origin() && n.Parent() != v.Origin(); n = n.Parent() {
				names[n.Parent()] = true
			}
		}
		seen := 0
		for owner, n := range f.v.All() {
			if f.model[owner] != n || f.v.Node(owner) != n {
				t.Fatalf("version %d: %s is %q, want %q", i, owner, n, f.model[owner])
			}
			seen++
		}
		if seen != len(f.model) || f.v.Counts() != want {
			t.Fatalf("version %d: %d owners, counts %+v, want %+v", i, seen, f.v.Counts(), want)
		}
		if _, leaves, bad := f.v.IndexShape(); bad != "" || leaves != len(names) {
			t.Fatalf("version %d: index has %d names, want %d; %s", i, leaves, len(names), bad)
		}
	}
	// Nothing is left of what is taken away.
	for owner := range model {
		c.Put(owner, "")
	}
	if nodes, leaves, bad := c.Version().IndexShape(); nodes != 1 || leaves != 0 || bad != "" {
		t.Fatalf("an empty zone has %d nodes and %d names; %s", nodes, leaves, bad)
	}
}

// Candidates of one version do not see each other.
func TestCandidatesOfOneVersionAreApart(t *testing.T) {
	origin := zone.MustName("example.org")
	base := zone.NewVersion(origin).Candidate()
	for i := range 100 {
		base.Put(zone.MustName(fmt.Sprintf("h%d.example.org", i)), zone.NewNode(set(t, "x. 60 A 192.0.2.0")))
	}
	v := base.Version()
	a, b := v.Candidate(), v.Candidate()
	var as, bs []*zone.Version
	for i := range 100 {
		owner := zone.MustName(fmt.Sprintf("h%d.example.org", i))
		a.Put(owner, zone.NewNode(set(t, "x. 60 A 192.0.2.1")))
		b.Put(owner, zone.NewNode(set(t, "x. 60 A 192.0.2.2")))
		as, bs = append(as, a.Version()), append(bs, b.Version())
	}
	for i := range 100 {
		for j := range 100 {
			owner := zone.MustName(fmt.Sprintf("h%d.example.org", j))
			want := [3]string{"192.0.2.0", "192.0.2.1", "192.0.2.2"}
			if j > i {
				want[1], want[2] = want[0], want[0]
			}
			for k, v := range []*zone.Version{v, as[i], bs[i]} {
				s, _ := v.RRset(owner, dns.TypeA)
				if got := s.RRs()[0].(*dns.A).A.String(); got != want[k] {
					t.Fatalf("version %d of candidate %d: %s is %s, want %s", i, k, owner, got, want[k])
				}
			}
		}
	}
}

// Readers of a version and the writer of the next share structure; the race
// detector watches.
func TestReadersDoNotSeeTheWriter(t *testing.T) {
	origin := zone.MustName("dyn.example.org")
	v := hosts(t, 2000)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				text := hostName(rng.IntN(2000))
				if a := v.Lookup(text, zone.MustName(text), dns.TypeA, false); len(a.Answer) != 1 || a.Answer[0].(*dns.A).A[0] != 0 {
					t.Errorf("%s: got %s", text, sections(a))
					return
				}
			}
		})
	}
	c := v.Candidate()
	for i := range 3000 {
		text := hostName(i % 2500)
		c.Put(zone.MustName(text), zone.NewNode(set(t, text+" 60 A 192.0.2.1")))
		if i%100 == 0 {
			c = c.Version().Candidate()
		}
	}
	close(stop)
	wg.Wait()
	if c.Counts().Names != 2501 || c.Version().Origin() != origin {
		t.Errorf("counts %+v", c.Counts())
	}
}

// A count that is too low hides records, one that is too high costs time on every
// question.
func TestWalksAreCountedBothWays(t *testing.T) {
	full := load(t, "testdata/lookup/example.org.zone", "example.org")
	if cuts, dnames, wildcards := full.Walks(); cuts != 3 || dnames != 4 || wildcards != 3 {
		t.Fatalf("%d cuts, %d DNAMEs, %d wildcards", cuts, dnames, wildcards)
	}
	c := full.Candidate()
	for owner := range full.All() {
		n := c.Node(owner)
		c.Put(owner, "")
		c.Put(owner, n)
		c.Put(owner, n)
	}
	if c.Version().Counts() != full.Counts() {
		t.Errorf("counts %+v, want %+v", c.Counts(), full.Counts())
	}
	if cuts, dnames, wildcards := c.Version().Walks(); cuts != 3 || dnames != 4 || wildcards != 3 {
		t.Errorf("after taking out and putting back: %d cuts, %d DNAMEs, %d wildcards", cuts, dnames, wildcards)
	}
	for owner := range full.All() {
		c.Put(owner, "")
	}
	empty := c.Version()
	if cuts, dnames, wildcards := empty.Walks(); cuts+dnames+wildcards != 0 || empty.Counts() != (zone.Counts{}) || !empty.SOA().Empty() || empty.Serial() != 0 {
		t.Errorf("empty: %d cuts, %d DNAMEs, %d wildcards, %+v", cuts, dnames, wildcards, empty.Counts())
	}
}

package policy_test

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestPermits(t *testing.T) {
	p := mustParse(t, `key k.example.org {
    self TXT
    update dual.example.org
    update *.dyn.example.org A AAAA DHCID ANY
    update own.dyn.example.org TXT
    update *.own.dyn.example.org SRV
    update all.example.org *
    update gone.example.org ANY
    update odd.example.org TYPE65280
    update twice.example.org A
    update twice.example.org a TXT
    update example.org MX
    update every.example.org *
    update every.example.org A
    update later.example.org A
    update later.example.org *
}
`)
	k := p.Keys()[0]
	for _, tc := range []struct {
		name, owner string
		typ         uint16
		want        bool
	}{
		{"self with its types", "k.example.org", dns.TypeTXT, true},
		{"self with another type", "k.example.org", dns.TypeA, false},
		{"the default types hold A", "dual.example.org", dns.TypeA, true},
		{"the default types hold AAAA", "dual.example.org", dns.TypeAAAA, true},
		{"the default types do not hold TXT", "dual.example.org", dns.TypeTXT, false},
		{"the default types do not delete a name", "dual.example.org", dns.TypeANY, false},
		{"a name below", "a.dyn.example.org", dns.TypeDHCID, true},
		{"a name further below", "c.b.a.dyn.example.org", dns.TypeA, true},
		{"a name below with another type", "a.dyn.example.org", dns.TypeCNAME, false},
		{"ANY deletes a whole name below", "a.dyn.example.org", dns.TypeANY, true},
		{"the base of names below is not one of them", "dyn.example.org", dns.TypeA, false},
		{"an exact grant adds to one from above", "own.dyn.example.org", dns.TypeTXT, true},
		{"an exact grant does not hide one from above", "own.dyn.example.org", dns.TypeA, true},
		{"a nearer grant below adds", "x.own.dyn.example.org", dns.TypeSRV, true},
		{"a nearer grant below does not hide one from above", "x.own.dyn.example.org", dns.TypeA, true},
		{"an exact grant is not for names below it", "x.own.dyn.example.org", dns.TypeTXT, false},
		{"the wildcard record is not below", "*.dyn.example.org", dns.TypeA, false},
		{"a name below the wildcard record is not below", "a.*.dyn.example.org", dns.TypeA, false},
		{"a star permits every type", "all.example.org", dns.TypeCAA, true},
		{"a star permits unknown types", "all.example.org", 65279, true},
		{"a star deletes a whole name", "all.example.org", dns.TypeANY, true},
		{"ANY alone deletes a whole name", "gone.example.org", dns.TypeANY, true},
		{"ANY alone permits no type", "gone.example.org", dns.TypeA, false},
		{"a type by number", "odd.example.org", 65280, true},
		{"two lines of one name are joined: first", "twice.example.org", dns.TypeA, true},
		{"two lines of one name are joined: second", "twice.example.org", dns.TypeTXT, true},
		{"a star is not lessened by a later line", "every.example.org", dns.TypeCAA, true},
		{"a later star adds to the types", "later.example.org", dns.TypeCAA, true},
		{"the apex", "example.org", dns.TypeMX, true},
		{"a name nobody granted", "www.example.org", dns.TypeA, false},
		{"the root", ".", dns.TypeA, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := k.Permits(zone.MustName(tc.owner), tc.typ); got != tc.want {
				t.Errorf("%s %s: got %v, want %v", tc.owner, zone.TypeString(tc.typ), got, tc.want)
			}
		})
	}
	for owner, want := range map[string]bool{
		"gone.example.org": true, "dyn.example.org": false, "a.dyn.example.org": true, "*.dyn.example.org": false, "www.example.org": false, "k.example.org": true,
	} {
		if got := k.Knows(zone.MustName(owner)); got != want {
			t.Errorf("knows %s: got %v, want %v", owner, got, want)
		}
	}
}

func TestNothingPermitsNothing(t *testing.T) {
	a := zone.MustName("a.example.org")
	var none *policy.Identity
	var noPolicy *policy.Policy
	reload := mustParse(t, inToken("reload")).Tokens()[0]
	root := mustParse(t, inToken("update *. *")).Tokens()[0]
	if none.Permits(a, dns.TypeA) || none.Knows(a) || none.Grants() != nil {
		t.Error("the nil Identity permits something")
	}
	if reload.Permits(a, dns.TypeA) || reload.Knows(a) {
		t.Error("reload permits an update")
	}
	if root.Permits("", dns.TypeA) || root.Knows("") {
		t.Error("the zero Name is permitted")
	}
	if _, ok := noPolicy.Token("0123456789abcdef"); ok || noPolicy.Tokens() != nil || noPolicy.Keys() != nil ||
		noPolicy.Hooks() != nil || noPolicy.Digest() != "" || noPolicy.Warnings() != nil {
		t.Error("the nil Policy has something")
	}
	if _, ok := noPolicy.Key(a); ok {
		t.Error("the nil Policy has a key")
	}
	if _, ok := noPolicy.Hook("a"); ok {
		t.Error("the nil Policy has a hook")
	}
}

func TestAdmits(t *testing.T) {
	const from = "from 192.0.2.0/24 2001:db8::/32 fe80::1"
	noon := time.Date(2027, 6, 30, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name, block, peer string
		now               time.Time
		want, reason      string
	}{
		{"anyone when nothing is said", "", "203.0.113.1", noon, "", ""},
		{"no peer at all when nothing is said", "", "", noon, "", ""},
		{"a peer of the prefix", from, "192.0.2.255", noon, "", ""},
		{"a peer of the IPv6 prefix", from, "2001:db8:ffff::1", noon, "", ""},
		{"an IPv4 peer in an IPv6 coat", from, "::ffff:192.0.2.1", noon, "", ""},
		{"a link-local peer with its interface", from, "fe80::1%eth0", noon, "", ""},
		{"a peer beside the prefix", from, "192.0.3.0", noon, "token a may not come from 192.0.3.0", "peer"},
		{"a peer in an IPv6 coat beside it", from, "::ffff:192.0.3.0", noon, "token a may not come from 192.0.3.0", "peer"},
		{"no peer at all", from, "", noon, "token a may not come from invalid IP", "peer"},
		{"every IPv4 peer is not every peer", "from 0.0.0.0/0", "2001:db8::1", noon, "token a may not come from 2001:db8::1", "peer"},
		{"the moment before it expires", "expires 2027-06-30T12:00:00Z", "192.0.2.1", noon.Add(-1), "", ""},
		{"the moment it expires", "expires 2027-06-30T12:00:00Z", "192.0.2.1", noon, "token a expired at 2027-06-30T12:00:00Z", "expired"},
		{"a date is its first second", "expires 2027-06-30", "192.0.2.1", noon, "token a expired at 2027-06-30T00:00:00Z", "expired"},
		{"the day before", "expires 2027-07-01", "192.0.2.1", noon, "", ""},
		{"expired and from elsewhere", from + "\nexpires 2027-06-30", "192.0.3.1", noon, "token a expired at 2027-06-30T00:00:00Z", "expired"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var peer netip.Addr
			if tc.peer != "" {
				peer = netip.MustParseAddr(tc.peer)
			}
			err := mustParse(t, inToken(tc.block)).Tokens()[0].Admits(peer, tc.now)
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			var d *policy.DeniedError
			if !errors.As(err, &d) || d.Reason != tc.reason || d.ID != "a" || d.Kind != policy.Token || err.Error() != tc.want {
				t.Errorf("got %#v, want reason %s and %q", err, tc.reason, tc.want)
			}
		})
	}
}

// One policy is read by every request at once; run with -race.
func TestConcurrentReads(t *testing.T) {
	p := mustParse(t, "token own sha256:"+sum("0123456789abcdef")+" {\nupdate a.example.org\nupdate *.dyn.example.org TXT\n}\n"+
		inKey("self")+inHook("match *.example.org"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				id, ok := p.Token("0123456789abcdef")
				if !ok || !id.Permits(zone.MustName("b.a.dyn.example.org"), dns.TypeTXT) || !id.Knows(zone.MustName("a.example.org")) || len(id.Grants()) != 2 {
					t.Error("the token's grants changed")
				}
				if _, ok := p.Key(zone.MustName("k.example.org")); !ok {
					t.Error("the key is gone")
				}
				if h, ok := p.Hook("h"); !ok || !h.Wants("added", zone.MustName("a.example.org"), dns.TypeA) {
					t.Error("the hook changed")
				}
				if !policy.Diff(p, p).Empty() || id.Admits(netip.MustParseAddr("192.0.2.1"), time.Time{}) != nil {
					t.Error("the policy differs from itself")
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkPermits(b *testing.B) {
	id := mustParse(b, inToken("update laptop.dyn.example.org\nupdate *.lab.example.org A AAAA TXT")).Tokens()[0]
	for name, owner := range map[string]string{"exact": "laptop.dyn.example.org", "below": "c.b.a.lab.example.org", "denied": "c.b.a.dyn.example.org"} {
		n := zone.MustName(owner)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				id.Permits(n, dns.TypeAAAA)
			}
		})
	}
}

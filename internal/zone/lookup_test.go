package zone_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// load reads a zone file into a version.
func load(t testing.TB, file, origin string) *zone.Version {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(text), origin)
}

func parse(t testing.TB, text, origin string) *zone.Version {
	t.Helper()
	apex := zone.MustName(origin)
	sets, err := zone.ReadFile(strings.NewReader(text), "zone", apex)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[zone.Name][]zone.RRset{}
	for _, s := range sets {
		nodes[s.Owner] = append(nodes[s.Owner], s)
	}
	c := zone.NewVersion(apex).Candidate()
	for owner, sets := range nodes {
		c.Put(owner, zone.NewNode(sets...))
	}
	return c.Version()
}

// brief writes an answer as one reads it: rcode, aa, then each section's records
// without class, "|" between sections.
func brief(a zone.Answer) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[a.Rcode])
	if a.Authoritative {
		b.WriteString(" aa")
	}
	for _, section := range [][]dns.RR{a.Answer, a.Authority, a.Additional} {
		b.WriteString(" |")
		for i, rr := range section {
			if i > 0 {
				b.WriteString(",")
			}
			h := rr.Header()
			data := strings.TrimPrefix(rr.String(), h.String())
			if len(data) > 60 && h.Rrtype != dns.TypeSOA {
				data = data[:20] + "~"
			}
			fmt.Fprintf(&b, " %s %d %s %s", strings.TrimSuffix(h.Name, ".example.org."), h.Ttl, dns.TypeToString[h.Rrtype], strings.TrimSuffix(data, ".example.org."))
		}
	}
	if a.Alias != "" {
		b.WriteString(" -> " + a.Alias.String())
	}
	return b.String()
}

func TestLookup(t *testing.T) {
	v := load(t, "testdata/lookup/example.org.zone", "example.org")
	const soa = "example.org. 60 SOA ns1.example.org. hostmaster.example.org. 7 7200 900 1209600 60"
	tests := []struct{ name, question, want string }{
		// RFC 1034, section 4.3.2
		{"one address", "host A", "NOERROR aa | host 300 A 192.0.2.80 | |"},
		{"the query's spelling is repeated", "HoSt A", "NOERROR aa | HoSt 300 A 192.0.2.80 | |"},
		{"an RRset has a fixed order", "two A", "NOERROR aa | two 300 A 192.0.2.2, two 300 A 192.0.2.3 | |"},
		{"NODATA has the SOA with the TTL of MINIMUM", "host AAAA", "NOERROR aa | | SOA |"},
		{"NXDOMAIN has the same SOA", "nothing A", "NXDOMAIN aa | | SOA |"},
		{"the SOA itself keeps its TTL", "@ SOA", "NOERROR aa | example.org. 3600 SOA ns1.example.org. hostmaster.example.org. 7 7200 900 1209600 60 | |"},
		{"apex NODATA", "@ A", "NOERROR aa | | SOA |"},
		{"DS at the apex is the parent's: NODATA here", "@ DS", "NOERROR aa | | SOA |"},
		{"DNSKEY is not ours to make", "@ DNSKEY", "NOERROR aa | | SOA |"},
		{"apex NS with the addresses the zone has, glue too", "@ NS", "NOERROR aa | example.org. 300 NS ns.sub, example.org. 300 NS ns.elsewhere.net., example.org. 300 NS ns1 | | ns.sub 300 A 192.0.2.53, ns1 300 A 192.0.2.1, ns1 300 AAAA 2001:db8::1"},
		{"an empty non-terminal is NODATA", "empty.ent A", "NOERROR aa | | SOA |"},
		{"so is one above it", "ent ANY", "NOERROR aa | | SOA |"},
		{"beside an empty non-terminal is NXDOMAIN", "other.ent A", "NXDOMAIN aa | | SOA |"},
		{"below a leaf is NXDOMAIN", "below.host A", "NXDOMAIN aa | | SOA |"},
		{"MX with its address", "@ MX", "NOERROR aa | example.org. 300 MX 10 mail | | mail 300 A 192.0.2.25"},
		{"SRV targets once each, without what is delegated", "srv SRV", "NOERROR aa | srv 300 SRV 0 0 80 host, srv 300 SRV 1 0 80 host, srv 300 SRV 2 0 80 ns.sub | | host 300 A 192.0.2.80"},
		{"HTTPS whose target is its owner", "SVC HTTPS", "NOERROR aa | SVC 300 HTTPS 1 . alpn=\"h2\" | | SVC 300 A 192.0.2.44"},
		{"ANY is every RRset", "host ANY", "NOERROR aa | host 300 A 192.0.2.80, host 300 TXT \"a host\" | |"},
		{"RRSIG is NODATA", "host RRSIG", "NOERROR aa | | SOA |"},
		{"NSEC is NODATA", "host NSEC", "NOERROR aa | | SOA |"},

		// CNAME
		{"CNAME is followed", "www A", "NOERROR aa | www 300 CNAME host, host 300 A 192.0.2.80 | |"},
		{"and gives NODATA with the chain", "www AAAA", "NOERROR aa | www 300 CNAME host | SOA |"},
		{"and NXDOMAIN with the chain", "dangling A", "NXDOMAIN aa | dangling 300 CNAME nothing | SOA |"},
		{"CNAME asked for is not followed", "www CNAME", "NOERROR aa | www 300 CNAME host | |"},
		{"nor by ANY", "www ANY", "NOERROR aa | www 300 CNAME host | |"},
		{"nor by NSEC", "www NSEC", "NOERROR aa | | SOA |"},
		{"CNAME out of the zone", "far A", "NOERROR aa | far 300 CNAME www.elsewhere.net. | | -> www.elsewhere.net."},
		{"CNAME into a delegation ends in a referral", "tochild A", "NOERROR aa | tochild 300 CNAME www.sub | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"CNAME to itself", "self A", "NOERROR aa | self 300 CNAME self | |"},
		{"CNAME loop, each record once", "loop2 A", "NOERROR aa | loop2 300 CNAME loop1, loop1 300 CNAME loop2 | |"},

		// RFC 4592
		{"wildcard", "x.wild A", "NOERROR aa | x.wild 300 A 192.0.2.99 | |"},
		{"wildcard covers deeper names", "x.Y.wild A", "NOERROR aa | x.Y.wild 300 A 192.0.2.99 | |"},
		{"wildcard with additional", "x.wild MX", "NOERROR aa | x.wild 300 MX 10 mail | | mail 300 A 192.0.2.25"},
		{"wildcard NODATA", "x.wild TXT", "NOERROR aa | | SOA |"},
		{"wildcard ANY", "x.wild ANY", "NOERROR aa | x.wild 300 A 192.0.2.99, x.wild 300 MX 10 mail | |"},
		{"a name that exists is not covered", "sub.wild A", "NOERROR aa | | SOA |"},
		{"nor is what is below it", "x.sub.wild A", "NXDOMAIN aa | | SOA |"},
		{"nor an empty non-terminal", "ent.wild A", "NOERROR aa | | SOA |"},
		{"nor below one", "x.ent.wild A", "NXDOMAIN aa | | SOA |"},
		{"nor the wildcard's parent", "wild A", "NOERROR aa | | SOA |"},
		{"the asterisk asked literally", "*.wild A", "NOERROR aa | *.wild 300 A 192.0.2.99 | |"},
		{"below the asterisk", "x.*.wild A", "NXDOMAIN aa | | SOA |"},
		{"wildcard CNAME", "x.alias A", "NOERROR aa | x.alias 300 CNAME host, host 300 A 192.0.2.80 | |"},
		{"wildcard that is an empty non-terminal: NODATA", "y.star A", "NOERROR aa | | SOA |"},

		// delegation
		{"referral with all addresses", "www.sub A", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"referral at the cut", "sub NS", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"referral for ANY", "sub ANY", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"referral for a name that is not there", "a.b.sub A", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"DO adds DS", "sub A +do", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other, sub 300 DS 1 8 2 00000000000000~ | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"DS at the cut is the parent's", "sub DS", "NOERROR aa | sub 300 DS 1 8 2 00000000000000~ | |"},
		{"no DS at the cut is NODATA", "other DS", "NOERROR aa | | SOA |"},
		{"DS below the cut is a referral", "www.sub DS", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"glue is not authoritative data", "ns.sub A", "NOERROR | | sub 300 NS ns.sub, sub 300 NS ns.other | ns.sub 300 A 192.0.2.53, ns.other 300 A 192.0.2.55"},
		{"the topmost cut hides the others", "x.inner.other A", "NOERROR | | other 300 NS ns.other | ns.other 300 A 192.0.2.55"},
		{"even for DS", "inner.other DS", "NOERROR | | other 300 NS ns.other | ns.other 300 A 192.0.2.55"},

		// RFC 6672
		{"DNAME", "a.dn A", "NOERROR aa | dn 300 DNAME target, a.dn 300 CNAME a.target, a.target 300 A 192.0.2.62 | |"},
		{"DNAME hides what is below it", "hidden.dn A", "NXDOMAIN aa | dn 300 DNAME target, hidden.dn 300 CNAME hidden.target | SOA |"},
		{"DNAME does not redirect its owner", "dn A", "NOERROR aa | dn 300 A 192.0.2.60 | |"},
		{"DNAME asked for at its owner", "dn DNAME", "NOERROR aa | dn 300 DNAME target | |"},
		{"DNAME asked for below it", "a.dn DNAME", "NOERROR aa | dn 300 DNAME target, a.dn 300 CNAME a.target | SOA |"},
		{"CNAME asked for below it", "a.dn CNAME", "NOERROR aa | dn 300 DNAME target, a.dn 300 CNAME a.target | |"},
		{"CNAME to a name below a DNAME", "todname A", "NXDOMAIN aa | todname 300 CNAME b.a.dn, dn 300 DNAME target, b.a.dn 300 CNAME b.a.target | SOA |"},
		{"DNAME out of the zone", "a.out A", "NOERROR aa | out 300 DNAME elsewhere.net., a.out 300 CNAME a.elsewhere.net. | | -> a.elsewhere.net."},
		{"too long for a name is YXDOMAIN", strings.Repeat("b", 60) + ".cccccccccc.long A", "YXDOMAIN aa | long 300 DNAME aaaaaaaaaaaaaaaaaaaa~ | |"},

		{"not in the zone", "www.example.com. A", "REFUSED | | |"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := strings.Fields(tt.question)
			qname := f[0] + ".example.org."
			switch {
			case f[0] == "@":
				qname = "example.org."
			case strings.HasSuffix(f[0], "."):
				qname = f[0]
			}
			a := v.Lookup(qname, zone.MustName(qname), dns.StringToType[f[1]], len(f) > 2)
			want := strings.ReplaceAll(tt.want, "| SOA", "| "+soa)
			if got := brief(a); got != want {
				t.Errorf("%s\n got %s\nwant %s", tt.question, got, want)
			}
			for _, s := range [][]dns.RR{a.Answer, a.Authority, a.Additional} {
				if cap(s) != len(s) {
					t.Errorf("section of %d records has room for %d", len(s), cap(s))
				}
			}
		})
	}
}

func TestLookupStopsAtItsLimit(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("$TTL 300\n@ SOA ns hostmaster 1 7200 900 1209600 60\n@ NS ns\n")
	for i := range 40 {
		fmt.Fprintf(&b, "c%d CNAME c%d\n", i, i+1)
	}
	b.WriteString("c40 A 192.0.2.1\nround DNAME x.round\n")
	v := parse(t, b.String(), "example.org")

	a := v.Lookup("c30.example.org.", zone.MustName("c30.example.org"), dns.TypeA, false)
	if len(a.Answer) != 11 || a.Alias != "" {
		t.Errorf("a chain of ten: got %s", brief(a))
	}
	a = v.Lookup("c0.example.org.", zone.MustName("c0.example.org"), dns.TypeA, false)
	if len(a.Answer) != 16 || a.Alias != zone.MustName("c16.example.org") || a.Rcode != dns.RcodeSuccess || a.Authority != nil {
		t.Errorf("a chain of forty: got %s", brief(a))
	}
	a = v.Lookup("a.round.example.org.", zone.MustName("a.round.example.org"), dns.TypeA, false)
	if len(a.Answer) != 17 || a.Alias == "" {
		t.Errorf("a DNAME below itself: got %s", brief(a))
	}
}

func TestLookupWithoutSOAIsServerFailure(t *testing.T) {
	v := zone.NewVersion(zone.MustName("example.org"))
	if a := v.Lookup("example.org.", v.Origin(), dns.TypeSOA, false); a.Rcode != dns.RcodeServerFailure || a.Authoritative {
		t.Errorf("got %s", brief(a))
	}
}

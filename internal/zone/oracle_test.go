package zone_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin/file"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// sections writes an answer with its records sorted.
func sections(a zone.Answer) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[a.Rcode])
	if a.Authoritative {
		b.WriteString(" aa")
	}
	for i, rrs := range [][]dns.RR{a.Answer, a.Authority, a.Additional} {
		b.WriteString([]string{"\n  answer", "\n  authority", "\n  additional"}[i])
		for _, s := range sorted(rrs) {
			b.WriteString("\n    " + s)
		}
	}
	if a.Alias != "" {
		b.WriteString("\n  alias " + a.Alias.String())
	}
	return b.String()
}

func sorted(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	slices.Sort(out)
	return out
}

// oracle is one generated zone in the hands of each who answers for it.
type oracle struct {
	generatedZone
	ours  *zone.Version
	naive naiveZone
	file  *file.Zone
}

func newOracle(t testing.TB, seed uint64) *oracle {
	t.Helper()
	o := &oracle{generatedZone: generateZone(seed)}
	o.ours = parse(t, o.text, oracleOrigin)
	var rrs []dns.RR
	for owner, n := range o.ours.All() {
		for s := range n.RRsets(owner) {
			rrs = append(rrs, s.RRs()...)
		}
	}
	o.naive = newNaiveZone(oracleOrigin, rrs)
	var err error
	if o.file, err = file.Parse(strings.NewReader(o.text), oracleOrigin, "zone", -1); err != nil {
		t.Fatal(err)
	}
	o.file.Upstream = again{o.file}
	return o
}

// again is the upstream of plugin/file as CoreDNS sets it up: the same server is
// asked, which refuses what is outside the zone.
type again struct{ z *file.Zone }

func (u again) Lookup(ctx context.Context, _ request.Request, name string, typ uint16) (*dns.Msg, error) {
	return serveFile(ctx, u.z, name, typ, false), nil
}

// serveFile makes a message of an answer of plugin/file as its ServeDNS does.
func serveFile(ctx context.Context, z *file.Zone, qname string, qtype uint16, do bool) *dns.Msg {
	q := new(dns.Msg)
	q.SetQuestion(qname, qtype)
	if do {
		q.SetEdns0(4096, true)
	}
	m := new(dns.Msg)
	m.SetReply(q)
	if !dns.IsSubDomain(oracleOrigin, qname) {
		m.Rcode = dns.RcodeRefused
		return m
	}
	var result file.Result
	m.Authoritative = true
	m.Answer, m.Ns, m.Extra, result = z.Lookup(ctx, request.Request{W: &test.ResponseWriter{}, Req: q}, qname)
	switch result {
	case file.NameError:
		m.Rcode = dns.RcodeNameError
	case file.Delegation:
		m.Authoritative = len(m.Answer) > 0
	case file.ServerFailure:
		m.Rcode = dns.RcodeServerFailure
	}
	return m
}

// check compares what the version answers with the naive zone, which it must equal,
// and with plugin/file, from which it may differ in ways that have a name.
func (o *oracle) check(t testing.TB, qname string, qtype uint16, do bool) (difference string) {
	t.Helper()
	ours := o.ours.Lookup(qname, zone.MustName(qname), qtype, do)
	want := o.naive.lookup(qname, qtype, do)
	if g, w := sections(ours), sections(want); g != w {
		t.Fatalf("%s %s do=%v\ngot  %s\nwant %s\nzone\n%s", qname, zone.TypeString(qtype), do, g, w, o.text)
	}
	for _, s := range [][]dns.RR{ours.Answer, ours.Authority, ours.Additional} {
		if len(s) != cap(s) || len(s) > 1 && len(dns.Dedup(slices.Clone(s), nil)) != len(s) {
			t.Fatalf("%s %s: a section of %d records, room for %d: %v", qname, zone.TypeString(qtype), len(s), cap(s), s)
		}
	}
	ours.Alias = "" // plugin/file has no such thing
	m := serveFile(t.Context(), o.file, qname, qtype, do)
	c := comparison{o: o, qname: qname, qtype: qtype, ours: ours, theirs: zone.Answer{
		Rcode: m.Rcode, Authoritative: m.Authoritative, Answer: m.Answer, Authority: m.Ns, Additional: m.Extra,
	}}
	name := c.difference()
	if name == "" {
		t.Fatalf("%s %s do=%v\nhere        %s\nplugin/file %s\nzone\n%s", qname, zone.TypeString(qtype), do, sections(ours), sections(c.theirs), o.text)
	}
	return name
}

func TestLookupAgainstOracles(t *testing.T) {
	zones := uint64(220)
	if testing.Short() {
		zones = 40
	}
	seen, all := map[string]int{}, 0
	for seed := range zones {
		o := newOracle(t, seed)
		for _, qname := range o.questions() {
			for _, qtype := range oracleTypes {
				seen[o.check(t, qname, qtype, seed%2 == 0)]++
				all++
			}
		}
	}
	for _, d := range differences {
		if seen[d.name] == 0 && !testing.Short() {
			t.Errorf("no question shows the difference %q any more (%s)", d.name, d.why)
		}
	}
	t.Logf("%d questions to %d zones: %v", all, zones, seen)
	if seen[noDifference] < all*9/10 {
		t.Errorf("only %d of %d answers are those of plugin/file", seen[noDifference], all)
	}
}

// plugin/file answers NXDOMAIN for a zone of SOA and NS only, as it has no node of
// its own for the apex. RFC 1034, section 4.3.2, step 3.a: the whole of QNAME is
// matched, so the name exists.
func TestApexOfAnEmptyZoneExists(t *testing.T) {
	v := parse(t, "$TTL 1\n@ SOA a b 1 2 3 4 5\n@ NS a.example.net.\n", oracleOrigin)
	a := v.Lookup(oracleOrigin, v.Origin(), dns.TypeA, false)
	if a.Rcode != dns.RcodeSuccess || len(a.Authority) != 1 {
		t.Errorf("got %s", sections(a))
	}
}

func FuzzLookup(f *testing.F) {
	f.Add(uint64(1), "x.a.example.org.", dns.TypeA, false)
	f.Add(uint64(13), "*.b.example.org.", dns.TypeANY, true)
	f.Add(uint64(55), "c.c.example.org.", dns.TypeDNAME, false)
	f.Fuzz(func(t *testing.T, seed uint64, text string, qtype uint16, do bool) {
		n, err := zone.ParseName(text)
		if err != nil || !n.Within(zone.MustName(oracleOrigin)) || strings.Contains(n.String(), "\\") {
			return // the naive zone cuts names at dots
		}
		newOracle(t, seed).check(t, n.String(), qtype, do)
	})
}

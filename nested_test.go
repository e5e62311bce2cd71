package ddns_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

const (
	parentFile = `$TTL 300
@ SOA ns1 hostmaster 1 3600 600 86400 60
@ NS ns1
ns1 A 127.0.0.1
lab NS ns.lab
lab DS 1 13 2 0000000000000000000000000000000000000000000000000000000000000000
ns.lab A 192.0.2.53
into CNAME host.lab
lost CNAME none.lab
* TXT "wildcard"
`
	childFile = `$TTL 300
@ SOA ns hostmaster 1 3600 600 86400 60
@ NS ns
ns A 192.0.2.53
host A 192.0.2.80
`
)

// nestedOptions has a zone and two below it in one stanza; far.off has no
// delegation in the parent.
func nestedOptions(dir string) options {
	o := signedOptions()
	o.dir = dir
	o.policy += "key " + otherKey + " {\n update *.dyn.example.org *\n}\n"
	return o
}

func startNested(t *testing.T, parent string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir()}
	s.write("parent", parent)
	s.write("child", childFile)
	s = start(t, nestedOptions(s.dir))
	corefile := strings.Replace(s.corefile, "ddns {", "ddns dyn.example.org lab.dyn.example.org far.off.dyn.example.org {\n file parent dyn.example.org\n file child lab.dyn.example.org", 1)
	corefile = strings.Replace(corefile, "dyn.example.org:", ".:", 1)
	if err := s.reload(corefile); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNameBelowAChildZoneIsNotTheParents(t *testing.T) {
	s := startNested(t, parentFile)
	signed := func(m *dns.Msg) string {
		r := sent(t, s.dial("udp"), packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret))
		return dns.RcodeToString[r.Rcode]
	}
	prerequisite := func(owner string) *dns.Msg {
		m := adding(t, "other.dyn.example.org. 60 A 192.0.2.1")
		m.NameUsed([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: owner}}})
		return m
	}
	removing := func(owner string) *dns.Msg {
		m := new(dns.Msg)
		m.SetUpdate("dyn.example.org.")
		m.RemoveName([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: owner}}})
		return m
	}
	inChild := adding(t, "new.lab.dyn.example.org. 60 A 192.0.2.1")
	inChild.Question[0].Name = "lab.dyn.example.org."
	before := s.serial()
	for name, test := range map[string]struct {
		message *dns.Msg
		want    string
	}{
		"a record below the child's apex":          {adding(t, "x.lab.dyn.example.org. 60 A 192.0.2.1"), "NOTZONE"},
		"the second of two is below":               {adding(t, "x.dyn.example.org. 60 A 192.0.2.1", "x.lab.dyn.example.org. 60 A 192.0.2.1"), "NOTZONE"},
		"an address at the child's apex":           {adding(t, "far.off.dyn.example.org. 60 A 192.0.2.1"), "NOTZONE"},
		"a name below the child's apex is deleted": {removing("host.lab.dyn.example.org."), "NOTZONE"},
		"a prerequisite below the child's apex":    {prerequisite("host.lab.dyn.example.org."), "NOTZONE"},
		"a prerequisite that fails comes first": {func() *dns.Msg {
			m := prerequisite("none.dyn.example.org.")
			m.Insert([]dns.RR{inChild.Ns[0]})
			return m
		}(), "NXDOMAIN"},
		"the delegation of a child":                  {adding(t, "far.off.dyn.example.org. 60 NS ns1.dyn.example.org."), "NOERROR"},
		"the delegation of a child is deleted":       {removing("far.off.dyn.example.org."), "NOERROR"},
		"a name that only ends like the child's":     {adding(t, "xlab.dyn.example.org. 60 A 192.0.2.1"), "NOERROR"},
		"a name between the zones":                   {adding(t, "off.dyn.example.org. 60 TXT x"), "NOERROR"},
		"a record of the child's, sent to the child": {inChild, "NOERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := signed(test.message); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if r := s.ask("x.dyn.example.org", dns.TypeA); len(r.Answer) > 0 {
		t.Errorf("half of a refused message counts: %v", r)
	}
	if got := s.serial(); got == before {
		t.Error("what is the parent's own did not change it")
	}
	// HTTP finds the child by itself.
	if a := s.update("web.lab", "192.0.2.81"); a.body["changed"] != true {
		t.Errorf("got %v", a.body)
	}
	if got := s.addresses("web.lab"); got != "192.0.2.81" {
		t.Errorf("web.lab: got %q", got)
	}
}

func TestZoneFileWithRecordsOfAChildZoneIsRefused(t *testing.T) {
	for name, record := range map[string]string{
		"below the apex":             "www.lab A 192.0.2.1\n",
		"at the apex":                "lab A 192.0.2.1\n",
		"no address at a glued name": "ns.lab TXT x\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startNested(t, parentFile)
			s.write("parent", parentFile+record)
			const want = "belongs to zone lab.dyn.example.org."
			a := s.call("GET", "/reload")
			if text, _ := a.body["reason"].(string); a.status != http.StatusUnprocessableEntity || !strings.Contains(text, want) {
				t.Errorf("/reload: got %d %v", a.status, a.body)
			}
			if err := s.reload(s.corefile); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a reload of the Corefile: got %v", err)
			}
			if got := s.addresses("host.lab"); got != "192.0.2.80" {
				t.Errorf("after failed reloads: got %q", got)
			}
		})
	}
}

func TestParentAndChildAnswerAsOne(t *testing.T) {
	s := startNested(t, parentFile)
	for _, test := range []struct {
		name, question string
		qtype          uint16
		rcode          string
		answer         string // types, in order
		soa            string // owner of the negative answer's
	}{
		{"the child answers for its apex", "lab.dyn.example.org.", dns.TypeSOA, "NOERROR", "SOA", ""},
		{"DS of a child is the parent's", "lab.dyn.example.org.", dns.TypeDS, "NOERROR", "DS", ""},
		{"DS of a child without a delegation is denied by the child", "far.off.dyn.example.org.", dns.TypeDS, "NOERROR", "", "far.off.dyn.example.org."},
		{"DS below the child's apex is the child's", "host.lab.dyn.example.org.", dns.TypeDS, "NOERROR", "", "lab.dyn.example.org."},
		{"an alias from the parent into a delegated child", "into.dyn.example.org.", dns.TypeA, "NOERROR", "CNAME A", ""},
		{"the alias itself is asked for", "into.dyn.example.org.", dns.TypeCNAME, "NOERROR", "CNAME", ""},
		{"all of an alias is asked for", "into.dyn.example.org.", dns.TypeANY, "NOERROR", "CNAME", ""},
		{"an alias to what the child does not have", "lost.dyn.example.org.", dns.TypeA, "NXDOMAIN", "CNAME", "lab.dyn.example.org."},
		{"that alias itself is asked for", "lost.dyn.example.org.", dns.TypeCNAME, "NOERROR", "CNAME", ""},
		{"a name that the child does not have", "none.lab.dyn.example.org.", dns.TypeTXT, "NXDOMAIN", "", "lab.dyn.example.org."},
		{"the parent's wildcard ends at the child", "x.lab.dyn.example.org.", dns.TypeTXT, "NXDOMAIN", "", "lab.dyn.example.org."},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := s.ask(test.question, test.qtype)
			var types []string
			for _, rr := range r.Answer {
				types = append(types, dns.TypeToString[rr.Header().Rrtype])
			}
			soa := ""
			if len(r.Ns) == 1 {
				soa = r.Ns[0].Header().Name
			}
			if dns.RcodeToString[r.Rcode] != test.rcode || strings.Join(types, " ") != test.answer || soa != test.soa {
				t.Errorf("got\n%v", r)
			}
		})
	}
}

// TestSignedParentAndChildAreRefused: the stock plugin signs the DS records of the child
// with the child's name, and keeps that signature for the parent's SOA too.
func TestSignedParentAndChildAreRefused(t *testing.T) {
	s := startNested(t, parentFile)
	key := zoneKey(t, s.dir)
	signed := func(zones string) error {
		return s.reload(strings.Replace(s.corefile, "ddns dyn", "dnssec "+zones+" {\n key file "+key+"\n}\nddns dyn", 1))
	}
	if err := signed("dyn.example.org lab.dyn.example.org"); err == nil || !strings.Contains(err.Error(), "zone lab.dyn.example.org. is below zone dyn.example.org.") {
		t.Errorf("both signed: got %v", err)
	}
	if err := signed("dyn.example.org"); err != nil {
		t.Errorf("the parent alone is signed: got %v", err)
	}
}

func TestChildWithoutADelegation(t *testing.T) {
	s := startNested(t, strings.Replace(parentFile, "* TXT \"wildcard\"\n", "far CNAME here.far.off\nloop CNAME loop.far.off\n", 1))
	s.update("here.far.off", "192.0.2.90")
	r := s.ask("far.dyn.example.org", dns.TypeA)
	if r.Rcode != dns.RcodeSuccess || len(r.Answer) != 2 {
		t.Errorf("an alias into a child that the parent does not know of: got\n%v", r)
	}
	if r := s.ask("far.dyn.example.org", dns.TypeAAAA); r.Rcode != dns.RcodeSuccess || len(r.Answer) != 1 || len(r.Ns) != 1 || r.Ns[0].Header().Name != "far.off.dyn.example.org." {
		t.Errorf("and has no such record there: got\n%v", r)
	}
	if r := s.ask("loop.dyn.example.org", dns.TypeA); r.Rcode != dns.RcodeNameError || len(r.Answer) != 1 {
		t.Errorf("and does not exist there: got\n%v", r)
	}
	if r := s.ask("off.dyn.example.org", dns.TypeA); r.Rcode != dns.RcodeSuccess || len(r.Ns) != 1 {
		t.Errorf("a name between the zones exists: got\n%v", r)
	}
	if r := s.ask("on.dyn.example.org", dns.TypeA); r.Rcode != dns.RcodeNameError {
		t.Errorf("a name beside does not: got\n%v", r)
	}
}

// The file of the parent has not changed when a zone below it comes, and is looked at
// all the same.
func TestChildZoneThatComesLaterHidesNothing(t *testing.T) {
	s := &server{t: t, dir: t.TempDir()}
	s.write("parent", parentFile+"www.far.off A 192.0.2.1\n")
	s.write("child", childFile)
	o := nestedOptions(s.dir)
	o.store = "bolt ddns.db"
	s = start(t, o)
	alone := strings.Replace(s.corefile, "ddns {", "ddns dyn.example.org {\n file parent dyn.example.org", 1)
	if err := s.reload(alone); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); s.addresses("www.far.off") == "" && time.Since(begin) < 10*time.Second; {
		time.Sleep(10 * time.Millisecond) // the file is merged once the old configuration has gone
	}
	both := strings.Replace(alone, "ddns dyn.example.org {", "ddns dyn.example.org far.off.dyn.example.org {\n file child far.off.dyn.example.org", 1)
	err := s.reload(both)
	if err == nil || !strings.Contains(err.Error(), "belongs to zone far.off.dyn.example.org.") {
		t.Errorf("a zone that hides a record of its parent's file: got %v", err)
	}
	if got := s.addresses("www.far.off"); got != "192.0.2.1" {
		t.Errorf("after the failed reload: got %q", got)
	}
}

// Each record of an answer is there once (RFC 2181, section 5), also when the aliases
// that lead to it go round, and a chain ends at its limit.
func TestAliasesThatGoRound(t *testing.T) {
	loop := strings.Builder{}
	const long = 20
	for i := range long {
		fmt.Fprintf(&loop, "k%d CNAME k%d\n", i, (i+1)%long)
	}
	for i := range 40 {
		fmt.Fprintf(&loop, "c%d CNAME c%d\n", i, i+1)
	}
	parent := strings.Replace(parentFile, "* TXT \"wildcard\"\n", loop.String()+"p1 CNAME round.lab\np2 CNAME p1\n", 1)
	s := &server{t: t, dir: t.TempDir()}
	s.write("parent", parent)
	s.write("child", childFile+"round CNAME p2.dyn.example.org.\n")
	s = start(t, nestedOptions(s.dir))
	corefile := strings.Replace(s.corefile, "ddns {", "ddns dyn.example.org lab.dyn.example.org {\n file parent dyn.example.org\n file child lab.dyn.example.org", 1)
	if err := s.reload(corefile); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"k0": 16, "c0": 16, "p1": 3, "p2": 3, "round.lab": 3} {
		r, err := s.exchange("tcp", name+".dyn.example.org.", dns.TypeA)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, rr := range r.Answer {
			if seen[rr.String()] {
				t.Errorf("%s: %s is there twice", name, rr)
			}
			seen[rr.String()] = true
		}
		if len(r.Answer) != want || r.Rcode != dns.RcodeSuccess {
			t.Errorf("%s: %d records, %s; want %d", name, len(r.Answer), dns.RcodeToString[r.Rcode], want)
		}
	}
}

package ddns_test

import (
	"crypto"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// The plugins in front of ddns change the messages it answers with: they shuffle,
// rename, re-time, sign, strip and keep them. None of that may reach the version of
// the zone that everybody else is answered from.

const chainZone = `$TTL 300
@ SOA ns1 hostmaster 1 3600 600 86400 60
@ NS ns1
@ NS ns2
@ MX 10 mail
@ MX 20 mail2
ns1 A 127.0.0.1
ns2 AAAA 2001:db8::2
mail A 192.0.2.25
mail A 192.0.2.26
mail AAAA 2001:db8::25
mail2 A 192.0.2.27
www A 192.0.2.1
www A 192.0.2.2
www A 192.0.2.3
www A 192.0.2.4
www TXT "one" "two"
a CNAME b
b CNAME c
c A 192.0.2.33
*.wild A 192.0.2.77
_sip._tcp SRV 0 5 5060 mail
sub NS ns.sub
ns.sub A 192.0.2.53
moved DNAME target
x.target A 192.0.2.99
`

// chainBlock are the plugins in front, in their strongest colours.
const chainBlock = `
	loadbalance
	cache 3600 {
		success 10000
		denial 10000
	}
	rewrite stop {
		name suffix .old.dyn.example.org. .dyn.example.org. answer auto
	}
	rewrite ttl exact www.dyn.example.org. 7
	header {
		response set ra
		response clear aa
	}
	acl {
		block type HINFO net *
	}
	transfer {
		to *
	}
	vandal
`

// chainQuestion is a question with all that may be in its answer.
type chainQuestion struct {
	name   string
	qtype  uint16
	rcode  int
	answer string // records without TTL and class, sorted, separated by "; "
	ns     string
	extra  string // of which the answer may hold less
}

const chainSOA = "dyn.example.org. SOA ns1.dyn.example.org. hostmaster.dyn.example.org."

func chainQuestions() []chainQuestion {
	const (
		addresses = "www.dyn.example.org. A 192.0.2.1; www.dyn.example.org. A 192.0.2.2; www.dyn.example.org. A 192.0.2.3; www.dyn.example.org. A 192.0.2.4"
		mail      = "mail.dyn.example.org. A 192.0.2.25; mail.dyn.example.org. A 192.0.2.26; mail.dyn.example.org. AAAA 2001:db8::25"
	)
	return []chainQuestion{
		{"www", dns.TypeA, 0, addresses, "", ""},
		{"www", dns.TypeANY, 0, addresses + `; www.dyn.example.org. TXT "one" "two"`, "", ""},
		{"www", dns.TypeAAAA, 0, "", chainSOA, ""},
		{"www.old", dns.TypeA, 0, strings.ReplaceAll(addresses, "www.", "www.old."), "", ""},
		{"", dns.TypeMX, 0, "dyn.example.org. MX 10 mail.dyn.example.org.; dyn.example.org. MX 20 mail2.dyn.example.org.", "", mail + "; mail2.dyn.example.org. A 192.0.2.27"},
		{"", dns.TypeNS, 0, "dyn.example.org. NS ns1.dyn.example.org.; dyn.example.org. NS ns2.dyn.example.org.", "", "ns1.dyn.example.org. A 127.0.0.1; ns2.dyn.example.org. AAAA 2001:db8::2"},
		{"a", dns.TypeA, 0, "a.dyn.example.org. CNAME b.dyn.example.org.; b.dyn.example.org. CNAME c.dyn.example.org.; c.dyn.example.org. A 192.0.2.33", "", ""},
		{"a", dns.TypeMX, 0, "a.dyn.example.org. CNAME b.dyn.example.org.; b.dyn.example.org. CNAME c.dyn.example.org.", chainSOA, ""},
		{"one.wild", dns.TypeA, 0, "one.wild.dyn.example.org. A 192.0.2.77", "", ""},
		{"two.wild", dns.TypeA, 0, "two.wild.dyn.example.org. A 192.0.2.77", "", ""},
		{"wild", dns.TypeA, 0, "", chainSOA, ""},
		{"none", dns.TypeA, dns.RcodeNameError, "", chainSOA, ""},
		{"none.old", dns.TypeA, dns.RcodeNameError, "", strings.Replace(chainSOA, "ns1.", "ns1.old.", 1), ""}, // rewritten in place
		{"_sip._tcp", dns.TypeSRV, 0, "_sip._tcp.dyn.example.org. SRV 0 5 5060 mail.dyn.example.org.", "", mail},
		{"host.sub", dns.TypeA, 0, "", "sub.dyn.example.org. NS ns.sub.dyn.example.org.", "ns.sub.dyn.example.org. A 192.0.2.53"},
		{"x.moved", dns.TypeA, 0, "moved.dyn.example.org. DNAME target.dyn.example.org.; x.moved.dyn.example.org. CNAME x.target.dyn.example.org.; x.target.dyn.example.org. A 192.0.2.99", "", ""},
		{"www", dns.TypeHINFO, dns.RcodeRefused, "", "", ""},
	}
}

// plain writes records without TTLs, serials and what signers add, sorted.
func plain(rrs []dns.RR) string {
	var out []string
	for _, rr := range rrs {
		switch r := rr.(type) {
		case *dns.OPT, *dns.RRSIG, *dns.NSEC:
			continue
		case *dns.SOA:
			out = append(out, fmt.Sprintf("%s SOA %s %s", r.Hdr.Name, r.Ns, r.Mbox))
			continue
		}
		h := rr.Header()
		out = append(out, fmt.Sprintf("%s %s %s", h.Name, dns.TypeToString[h.Rrtype], strings.TrimPrefix(rr.String(), h.String())))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// wrong says what is wrong with an answer; signed if the chain has a signer.
func (q chainQuestion) wrong(r *dns.Msg, signed, minimal bool) error {
	ns := q.ns
	if (signed || minimal) && q.answer != "" {
		ns = "" // what a resolver can do without, or what the signer could not sign
	}
	rcode := q.rcode
	if signed && rcode == dns.RcodeNameError {
		rcode = dns.RcodeSuccess // the signer's compact denial
	}
	if r.Rcode != rcode {
		return fmt.Errorf("rcode: got %s, want %s", dns.RcodeToString[r.Rcode], dns.RcodeToString[rcode])
	}
	if got := plain(r.Answer); got != q.answer {
		return fmt.Errorf("answer: got %q, want %q", got, q.answer)
	}
	if got := plain(r.Ns); got != ns {
		return fmt.Errorf("authority: got %q, want %q", got, ns)
	}
	ttl := uint32(60)
	if q.name == "www" {
		ttl = 7 // by the rewrite
	}
	for _, rr := range r.Ns {
		if rr.Header().Rrtype == dns.TypeSOA && rr.Header().Ttl != ttl {
			return fmt.Errorf("TTL of the negative answer: got %d, want %d", rr.Header().Ttl, ttl)
		}
	}
	got := plain(r.Extra)
	if !minimal && !r.Truncated && got != q.extra {
		return fmt.Errorf("additional: got %q, want %q", got, q.extra)
	}
	for rr := range strings.SplitSeq(got, "; ") {
		if !strings.Contains("; "+q.extra+";", "; "+rr+";") && rr != "" {
			return fmt.Errorf("additional: %q belongs to another question", rr)
		}
	}
	return nil
}

var dynamicAnswer = regexp.MustCompile(`^(|u(\d)\.dyn\.example\.org\. A 198\.51\.100\.(\d); u\d\.dyn\.example\.org\. A 203\.0\.113\.(\d+))$`)

// chainClient asks on one socket, one question at a time.
func chainClient(s *server, seed uint64, questions int, signer, minimal bool, count *atomic.Int64) error {
	client := &dns.Client{Net: "udp", Timeout: 10 * time.Second, UDPSize: 4096}
	conn, err := client.Dial(s.dns)
	if err != nil {
		return err
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(seed, 1))
	table := chainQuestions()
	for range questions {
		m := new(dns.Msg)
		do := random.IntN(3) == 0
		k := random.IntN(len(table) + 6)
		if k >= len(table) {
			// A name that changes: two addresses that say whose and of which round
			// they are, or nothing.
			u := random.IntN(4)
			m.SetQuestion(fmt.Sprintf("u%d.dyn.example.org.", u), dns.TypeA).SetEdns0(4096, do)
			r, _, err := client.ExchangeWithConn(m, conn)
			if err != nil {
				return err
			}
			got := plain(r.Answer)
			parts := dynamicAnswer.FindStringSubmatch(got)
			if parts == nil || got != "" && (parts[2] != fmt.Sprint(u) || parts[3] != parts[2]) {
				return fmt.Errorf("u%d: got %q", u, got)
			}
		} else {
			q := table[k]
			name := strings.TrimPrefix(q.name+".dyn.example.org.", ".")
			m.SetQuestion(name, q.qtype).SetEdns0(4096, do)
			r, _, err := client.ExchangeWithConn(m, conn)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if err := q.wrong(r, signer && do, minimal); err != nil {
				return fmt.Errorf("%s %s do=%v: %w\n%v", name, dns.TypeToString[q.qtype], do, err, r)
			}
		}
		count.Add(1)
	}
	return nil
}

// zoneKey makes the dnssec plugin a key.
func zoneKey(t *testing.T, dir string) (base string) {
	t.Helper()
	key := &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: "dyn.example.org.", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 3600},
		Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}
	private, err := key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := private.(crypto.Signer); !ok {
		t.Fatalf("the key is a %T", private)
	}
	base = filepath.Join(dir, "Kdyn.example.org.+013+00001")
	for file, text := range map[string]string{base + ".key": key.String(), base + ".private": key.PrivateKeyString(private)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func TestChainCannotDamageAVersion(t *testing.T) {
	for _, variant := range []struct {
		name           string
		block          string
		signer, strips bool
	}{
		{"with minimal", "minimal", false, true},
		{"with dnssec", "dnssec {\n key file KEY\n}", true, false},
	} {
		t.Run(variant.name, func(t *testing.T) {
			s := &server{t: t, dir: t.TempDir()}
			s.write("zone", chainZone)
			block := strings.Replace(variant.block, "KEY", zoneKey(t, s.dir), 1)
			s = start(t, options{dir: s.dir, store: "memory", stanza: "file zone", block: chainBlock + block})
			before := s.transfer(0)
			if before.err != nil || len(before.records) < 20 {
				t.Fatalf("AXFR: %v %v", before.records, before.err)
			}

			done := make(chan struct{})
			var updaters, clients sync.WaitGroup
			var updates, answers atomic.Int64
			for u := range 4 {
				updaters.Go(func() {
					for round := 0; ; round++ {
						select {
						case <-done:
							return
						default:
						}
						method, path := "GET", updatePath(fmt.Sprintf("u%d", u), fmt.Sprintf("198.51.100.%d", u), fmt.Sprintf("203.0.113.%d", round%256))
						if round%5 == 4 {
							method, path = "DELETE", fmt.Sprintf("/update?fqdn=u%d.dyn.example.org", u)
						}
						if a, err := s.try(method, path); err != nil || a.status != 200 {
							t.Errorf("%s %s: %v %v", method, path, a, err)
							return
						}
						updates.Add(1)
					}
				})
			}
			for k := range 8 {
				clients.Go(func() {
					if err := chainClient(s, uint64(k), 1000, variant.signer, variant.strips, &answers); err != nil {
						t.Error(err)
					}
				})
			}
			clients.Wait()
			close(done)
			updaters.Wait()
			if updates.Load() < 10 {
				t.Errorf("only %d updates ran meanwhile", updates.Load())
			}
			t.Logf("%d answers, %d updates", answers.Load(), updates.Load())

			// Once more and alone, with what was changed in between.
			for u := range 4 {
				s.update(fmt.Sprintf("u%d", u), fmt.Sprintf("198.51.100.%d", u), "203.0.113.1")
			}
			if err := chainClient(s, 99, 200, variant.signer, variant.strips, &answers); err != nil {
				t.Error(err)
			}
			after := s.transfer(0)
			if after.err != nil {
				t.Fatal(after.err)
			}
			want := texts(before.records[1 : len(before.records)-1])
			for u := range 4 {
				want = append(want, fmt.Sprintf("u%d.dyn.example.org.\t60\tIN\tA\t198.51.100.%d", u, u), fmt.Sprintf("u%d.dyn.example.org.\t60\tIN\tA\t203.0.113.1", u))
			}
			slices.Sort(want)
			if got := texts(after.records[1 : len(after.records)-1]); !slices.Equal(got, want) {
				t.Errorf("the zone after all that: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			soaBefore, soaAfter := before.records[0].(*dns.SOA), after.records[0].(*dns.SOA)
			soaBefore.Serial = soaAfter.Serial
			if soaBefore.String() != soaAfter.String() {
				t.Errorf("SOA: got %v, want %v", soaAfter, soaBefore)
			}
		})
	}
}

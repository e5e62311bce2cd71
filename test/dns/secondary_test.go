package dns_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// secondary is a server of another project that follows ours.
type secondary struct {
	name    string
	address string
	log     *output
}

// followers starts BIND, Knot and NSD with the configurations of
// docs/secondaries.md, for the zones given: the recipe's zone stanza is repeated for
// each. prepared chose the primary's addresses.
func followers(t testing.TB, s *server, listen map[string]string, zones []string) []secondary {
	t.Helper()
	const own = "dyn.example.org"
	repeat := func(config, begin string) string {
		i := strings.LastIndex(config, begin)
		if i < 0 {
			t.Fatalf("the recipe has no %q", begin)
		}
		var b strings.Builder
		b.WriteString(config[:i])
		for _, z := range zones {
			b.WriteString(strings.ReplaceAll(config[i:], own, z) + "\n")
		}
		return b.String()
	}
	dir := func(name string) string {
		d := filepath.Join(s.dir, name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		return d
	}
	var out []secondary

	d := dir("bind")
	config := adapt(t, recipe(t, "secondaries.md", "named.conf"), "server 192.0.2.1", "server 127.0.0.1", "192.0.2.1 port 53", "127.0.0.1 port "+port(s.dns), "{ 192.0.2.1; }", "{ 127.0.0.1; }", "per-type 256", "per-type 4000")
	config = repeat(config, `zone "`) + fmt.Sprintf(`options {
	directory %q;
	pid-file none;
	session-keyfile none;
	listen-on port %s { 127.0.0.1; };
	listen-on-v6 { none; };
	recursion no;
	allow-transfer { 127.0.0.1; };
	minimal-responses no;
	dnssec-validation no;
	serial-query-rate 1000;
};
controls { };
`, d, port(listen["BIND"]))
	out = append(out, secondary{"BIND", listen["BIND"], daemon(t, d, nil, "named", "-g", "-c", write(t, d, "named.conf", config))})

	d = dir("knot")
	config = adapt(t, recipe(t, "secondaries.md", "knot.conf"), "192.0.2.1@53", "127.0.0.1@"+port(s.dns), "address: 192.0.2.1\n", "address: 127.0.0.1\n", "    acl: notify\n", "    acl: [notify, read]\n")
	config = strings.Replace(config, "acl:\n", "acl:\n  - id: read\n    address: 127.0.0.1\n    action: transfer\n", 1)
	i := strings.Index(config, "zone:\n")
	config = config[:i+len("zone:\n")] + strings.TrimPrefix(repeat(config[i:], "  - domain"), "zone:\n")
	config = fmt.Sprintf("server:\n    listen: 127.0.0.1@%s\n    rundir: %s\ndatabase:\n    storage: %s\nlog:\n  - target: stderr\n    any: info\ntemplate:\n  - id: default\n    storage: %s\n",
		port(listen["Knot"]), d, d, d) + config
	out = append(out, secondary{"Knot", listen["Knot"], daemon(t, d, nil, "knotd", "-c", write(t, d, "knot.conf", config))})

	d = dir("nsd")
	config = adapt(t, recipe(t, "secondaries.md", "nsd.conf"), "192.0.2.1@53", "127.0.0.1@"+port(s.dns), "allow-notify: 192.0.2.1", "provide-xfr: 127.0.0.1 NOKEY\n    allow-notify: 127.0.0.1")
	config = repeat(config, "zone:\n") + fmt.Sprintf("server:\n    ip-address: 127.0.0.1\n    port: %s\n    username: \"\"\n    zonesdir: %q\n    database: \"\"\n    pidfile: %q\n    xfrdfile: %q\n    zonelistfile: %q\n    xfrdir: %q\n    verbosity: 2\n    server-count: 1\nremote-control:\n    control-enable: no\n",
		port(listen["NSD"]), d, d+"/nsd.pid", d+"/xfrd.state", d+"/zone.list", d)
	out = append(out, secondary{"NSD", listen["NSD"], daemon(t, d, nil, "nsd", "-d", "-c", write(t, d, "nsd.conf", config))})
	return out
}

// axfr is a zone as a server gives it away, in order, names in lower case.
func axfr(address, zone string, signed bool) ([]string, error) {
	m := new(dns.Msg)
	m.SetAxfr(dns.Fqdn(zone))
	tr := &dns.Transfer{DialTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second}
	if signed {
		const key = "transfer.example.org."
		tr.TsigSecret = map[string]string{key: secret}
		m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Unix())
	}
	envelopes, err := tr.In(m, address)
	if err != nil {
		return nil, err
	}
	var out []string
	for e := range envelopes {
		err = errors.Join(err, e.Error)
		for _, rr := range e.RR {
			rr.Header().Name = strings.ToLower(rr.Header().Name)
			out = append(out, rr.String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err // the SOA comes twice
}

func soaSerial(address, zone string) (uint32, bool) {
	c := &dns.Client{Timeout: 2 * time.Second}
	r, _, err := c.Exchange(query(zone, dns.TypeSOA), address)
	if err != nil || len(r.Answer) != 1 {
		return 0, false
	}
	soa, ok := r.Answer[0].(*dns.SOA)
	return soa.Serial, ok
}

// caughtUp waits until every secondary is at the primary's serial and compares.
func caughtUp(t testing.TB, s *server, others []secondary, zone string) {
	t.Helper()
	want, err := axfr(s.dns, zone, true)
	if err != nil {
		t.Fatalf("AXFR of %s from ours: %v", zone, err)
	}
	serial := s.serial(zone)
	for _, o := range others {
		var got []string
		until(t, 60*time.Second, fmt.Sprintf("%s at serial %d of %s", o.name, serial, zone), func() bool {
			now, ok := soaSerial(o.address, zone)
			if !ok || now != serial {
				return false
			}
			// A process of NSD that is from before the reload may take the connection.
			got, err = axfr(o.address, zone, false)
			return err == nil
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s has another %s: %d records, want %d\nmissing: %.600q\nextra: %.600q", o.name, zone, len(got), len(want), without(want, got), without(got, want))
		}
	}
}

// without is what is in a and not in b.
func without(a, b []string) []string {
	in := make(map[string]bool, len(b))
	for _, s := range b {
		in[s] = true
	}
	var out []string
	for _, s := range a {
		if !in[s] {
			out = append(out, s)
		}
	}
	return out
}

const soaLine = "@ 3600 SOA ns1.dyn.example.org. hostmaster.example.org. %d 3600 600 1209600 60\n@ 3600 NS ns1.dyn.example.org.\n"

// followed runs the primary of docs/secondaries.md with these seeded zones beside
// dyn.example.org, and the three secondaries.
func followed(t testing.TB, seeds map[string]string) (*server, []secondary) {
	t.Helper()
	need(t, "named", "knotd", "nsd")
	var zones, grants []string
	stanza := ""
	for z := range seeds {
		zones = append(zones, z)
		stanza += fmt.Sprintf("        seed %s.db %s\n", z, z)
		if z != "dyn.example.org" {
			grants = append(grants, fmt.Sprintf("    update *.%s *\n    update %s *\n    update \\*.%s *\n", z, z, z))
		}
	}
	slices.Sort(zones)
	s := prepare(t, "")
	policyText, err := os.ReadFile(filepath.Join(s.dir, "policy"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, s.dir, "policy", strings.Replace(string(policyText), "key "+fullKey+" {\n", "key "+fullKey+" {\n"+strings.Join(grants, ""), 1))
	for z, text := range seeds {
		write(t, s.dir, z+".db", text)
	}
	listen := map[string]string{"BIND": freeAddress(t), "Knot": freeAddress(t), "NSD": freeAddress(t)}
	s.start(adapt(t, corefile(t, "secondaries.md", 0),
		"dyn.example.org {", strings.Join(zones, " ")+" {",
		"to 192.0.2.53 192.0.2.54 192.0.2.55", fmt.Sprintf("to %s %s %s", listen["BIND"], listen["Knot"], listen["NSD"]),
		"        ns ns1.dyn.example.org 192.0.2.1\n        ns ns2.example.net\n", stanza+"        limit records 4000\n"))
	return s, followers(t, s, listen, zones)
}

// TestSecondariesFollowByIXFR lets BIND, Knot and NSD follow a thousand random
// updates while others come over HTTP as fast as they can. After the first transfer
// each is a difference, and at the end all four servers have the same zone.
func TestSecondariesFollowByIXFR(t *testing.T) {
	// Large enough that what happens while a secondary is busy is less than the zone.
	const zone, hosts = "dyn.example.org", 60000
	var seed strings.Builder
	fmt.Fprintf(&seed, soaLine+"ns1 3600 A 127.0.0.1\n", 1)
	for i := range hosts {
		fmt.Fprintf(&seed, "base%d 60 A 10.%d.%d.%d\n", i, i>>16, i>>8&255, i&255)
	}
	s, others := followed(t, map[string]string{zone: seed.String()})
	kind := func(k string) float64 {
		return s.metric("coredns_ddns_transfers_total", `zone="dyn.example.org."`, `kind="`+k+`"`)
	}
	caughtUp(t, s, others, zone)
	whole := kind("axfr") + kind("axfr-fallback")

	stop := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := s.publish(fmt.Sprintf("http%d-%d.dyn.example.org", w, i%50), fmt.Sprintf("192.0.2.%d", i%250+1), fmt.Sprintf("2001:db8::%x", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	updates := 1000
	if long() {
		updates = 20000
	}
	r := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	for i := range updates {
		if rcode := s.send("tcp", fullKey, randomUpdate(t, r)); rcode != dns.RcodeSuccess {
			t.Fatalf("update %d: %s", i, dns.RcodeToString[rcode])
		}
	}
	took := time.Since(began)
	// Let them follow for a while more, so that several differences are fetched.
	until(t, 30*time.Second, "five differences for each", func() bool { return kind("ixfr") >= 15 })
	close(stop)
	writers.Wait()
	overHTTP := s.metric("coredns_ddns_updates_total", `protocol="http"`, `result="changed"`)
	caughtUp(t, s, others, zone)
	t.Logf("%d updates in %v beside %v over HTTP: %v differences, %v up to date", updates, took.Round(time.Millisecond), overHTTP, kind("ixfr"), kind("current"))
	// NSD 4.6 may drop a transfer that ends while it loads others. It says so, refuses what
	// it is fetching on top, and begins anew: with the whole zone, or with a difference that
	// by then is larger than the zone.
	dropped := strings.Count(others[2].log.String(), "update failed, restarting transfer")
	// caughtUp itself asks ours for one.
	if more := int(kind("axfr") + kind("axfr-fallback") - whole); more < 1 || more > 1+2*dropped {
		t.Errorf("%d whole transfers after the first, want that of the test itself and at most %d by NSD; asked for a difference: %v", more, 2*dropped, kind("axfr-fallback"))
	}
	for _, o := range others {
		text := o.log.String()
		if o.name == "NSD" && dropped > 0 {
			text = strings.ReplaceAll(text, "bad transfer", "")
		}
		for _, bad := range []string{"failed: not exact", "malformed", "failed to apply", "semantic error", "journal rollforward failed", "bad transfer"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s said %q", o.name, bad)
			}
		}
	}
}

// randomUpdate adds, replaces or removes some of what people have in zones, at
// names of a small set, so that most updates meet what earlier ones left.
func randomUpdate(t testing.TB, r *rand.Rand) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetUpdate("dyn.example.org.")
	rr := func(format string, args ...any) []dns.RR {
		rr, err := dns.NewRR(fmt.Sprintf(format, args...))
		if err != nil {
			t.Fatal(err)
		}
		return []dns.RR{rr}
	}
	for range 1 + r.IntN(4) {
		n := r.IntN(60)
		name := fmt.Sprintf("rnd%d.dyn.example.org.", n)
		if r.IntN(3) == 0 {
			name = strings.ToUpper(name[:4]) + name[4:] // case is not kept
		}
		switch r.IntN(16) {
		case 0:
			m.RemoveName([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: name}}})
		case 1:
			m.RemoveRRset(rr("%s 60 A 192.0.2.1", name))
		case 2:
			m.Remove(rr("%s 60 A 192.0.2.%d", name, r.IntN(8)))
		case 3:
			m.RemoveRRset(rr("%s 60 A 192.0.2.1", name))
			m.Insert(rr("%s %d A 192.0.2.%d", name, 60+r.IntN(3), r.IntN(8)))
		case 4:
			m.Insert(rr("%s 60 AAAA 2001:db8::%x", name, r.IntN(8)))
		case 5:
			m.Insert(rr(`%s 60 TXT "%d" "with \"quotes\" and \\ and \001"`, name, r.IntN(4)))
		case 6:
			m.Insert(rr("%s 60 MX %d Mail%d.Example.NET.", name, r.IntN(3), r.IntN(3)))
		case 7:
			m.Insert(rr("alias%d.dyn.example.org. 60 CNAME %s", n, name))
		case 8:
			m.Insert(rr("*.dyn.example.org. 60 TXT %d", r.IntN(9)))
			m.Remove(rr("*.dyn.example.org. 60 TXT %d", r.IntN(9)))
		case 9:
			m.Insert(rr("sub%d.dyn.example.org. 300 NS ns.sub%d.dyn.example.org.", n, n))
			m.Insert(rr("ns.sub%d.dyn.example.org. 300 A 192.0.2.53", n))
			if r.IntN(2) == 0 {
				m.Insert(rr("sub%d.dyn.example.org. 300 DS 1 13 2 %064x", n, r.IntN(4)))
			}
		case 10:
			m.RemoveRRset(rr("sub%d.dyn.example.org. 300 NS ns.example.net.", n))
		case 11:
			m.Insert(rr("%s 60 SRV %d 0 443 web.example.net.", name, r.IntN(3)))
		case 12:
			m.Insert(rr(`%s 60 CAA 0 issue "ca%d.example.net"`, name, r.IntN(3)))
		case 13:
			m.Insert(rr("%s 60 HTTPS %d . alpn=h2 ipv4hint=192.0.2.%d", name, 1+r.IntN(2), r.IntN(3)))
		case 14:
			m.Insert(rr(`%s 60 TYPE65280 \# 2 00%02x`, name, r.IntN(4)))
		case 15:
			m.Insert(rr("a.b.c.d%d.deep.dyn.example.org. 60 SSHFP 4 2 %064x", n, r.IntN(4)))
		}
	}
	return m
}

// TestSerialsAndShapes transfers zones that are unusual, and changes them: serials
// about to pass 2^31 and 2^32, one record, an RRset of tens of kilobytes, names as
// long and as deep as names can be.
func TestSerialsAndShapes(t *testing.T) {
	long63 := strings.Repeat("x", 63)
	deep := strings.TrimSuffix(strings.Repeat("a.", 110), ".")                         // with .deep.example.org. 110 labels more
	longest := long63 + "." + long63 + "." + long63 + "." + strings.Repeat("y", 61-17) // 255 octets with .deep.example.org.
	var huge strings.Builder
	fmt.Fprintf(&huge, soaLine, 1)
	for i := range 3000 {
		fmt.Fprintf(&huge, "big 60 A 10.1.%d.%d\n", i>>8, i&255)
	}
	pad := func() string { // so that a difference is smaller than the zone
		var b strings.Builder
		for i := range 100 {
			fmt.Fprintf(&b, "pad%d 60 A 192.0.2.1\n", i)
		}
		return b.String()
	}
	s, others := followed(t, map[string]string{
		"dyn.example.org":    fmt.Sprintf(soaLine, 1) + "ns1 3600 A 127.0.0.1\n",
		"sign.example.org":   fmt.Sprintf(soaLine, uint32(1<<31-4)) + pad(),
		"wrap.example.org":   fmt.Sprintf(soaLine, 1) + pad(),
		"single.example.org": fmt.Sprintf(soaLine, 1),
		"huge.example.org":   huge.String(),
		"deep.example.org":   fmt.Sprintf(soaLine, 1) + deep + " 60 A 192.0.2.1\n" + longest + " 60 TXT longest\n" + pad(),
	})
	zones := []string{"dyn.example.org", "sign.example.org", "wrap.example.org", "single.example.org", "huge.example.org", "deep.example.org"}
	for _, z := range zones {
		caughtUp(t, s, others, z)
	}
	change := func(zone string, add []string, remove []string) {
		t.Helper()
		m := new(dns.Msg)
		m.SetUpdate(zone + ".")
		for i, list := range [][]string{remove, add} {
			for _, text := range list {
				rr, err := dns.NewRR(text)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					m.Remove([]dns.RR{rr})
				} else {
					m.Insert([]dns.RR{rr})
				}
			}
		}
		before := s.serial(zone)
		if rcode := s.send("tcp", fullKey, m); rcode != dns.RcodeSuccess {
			t.Fatalf("%s: %s", zone, dns.RcodeToString[rcode])
		}
		if after := s.serial(zone); int32(after-before) <= 0 {
			t.Errorf("%s: serial %d after %d is not greater by RFC 1982", zone, after, before)
		}
	}
	for i := range 10 {
		change("sign.example.org", []string{fmt.Sprintf("s%d.sign.example.org. 60 A 192.0.2.1", i)}, nil)
	}
	if got := s.serial("sign.example.org"); got <= 1<<31 {
		t.Errorf("the serial did not pass 2^31: %d", got)
	}
	// An SOA by UPDATE sets the serial when it is greater; two steps lead up to the end.
	for _, serial := range []uint32{3_000_000_000, 1<<32 - 2} {
		change("wrap.example.org", []string{fmt.Sprintf("wrap.example.org. 3600 SOA ns1.dyn.example.org. hostmaster.example.org. %d 3600 600 1209600 60", serial)}, nil)
		if got := s.serial("wrap.example.org"); got != serial {
			t.Fatalf("the serial is %d, want %d", got, serial)
		}
		caughtUp(t, s, others, "wrap.example.org")
	}
	change("wrap.example.org", []string{"w.wrap.example.org. 60 A 192.0.2.1"}, nil)
	if got := s.serial("wrap.example.org"); got == 0 || got > 1<<31 {
		t.Errorf("the serial did not pass 2^32: %d", got)
	}
	change("wrap.example.org", []string{"w.wrap.example.org. 60 A 192.0.2.2"}, nil)
	change("single.example.org", []string{"one.single.example.org. 60 A 192.0.2.1"}, nil)
	change("huge.example.org", []string{"big.huge.example.org. 60 A 192.0.2.1"}, []string{"big.huge.example.org. 60 A 10.1.0.7"})
	change("deep.example.org", []string{"b." + strings.TrimPrefix(deep, "a.") + ".deep.example.org. 60 A 192.0.2.2"}, []string{longest + ".deep.example.org. 60 TXT longest"})
	change("dyn.example.org", []string{"a.dyn.example.org. 60 A 192.0.2.1"}, nil)
	for _, z := range zones {
		caughtUp(t, s, others, z)
	}
}

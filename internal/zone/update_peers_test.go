package zone_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/dynupdate"
	"github.com/coredns/coredns/plugin/pkg/dnstest"
	"github.com/coredns/coredns/plugin/test"
	"github.com/coredns/coredns/plugin/transfer"
	"github.com/coredns/coredns/plugin/tsig"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/loopback"
)

// peer is another server that holds the zone of updateZone.
type peer interface {
	update(t *testing.T, m *dns.Msg) (rcode int)
	transfer(t *testing.T) []dns.RR // without the second SOA
}

// TestUpdatesAsOthers sends the same random messages to us and to another server
// and compares RCODE and zone after each. What differs is named, with the reason:
//
//   - serials: each server takes steps of its own, so they are left out, and SOA
//     updates ask for serials far above or below any
//   - TTLs, with dynupdate: it keeps one TTL per record, we one per RRset (RFC 2181,
//     section 5.2), as BIND does; they are left out with it
//   - DNAME: dynupdate appends a second one, where RFC 6672, section 5.2 has it
//     replaced; BIND refuses the whole message for a DNAME beside NS
//   - SOA at another name than the apex: dynupdate answers FORMERR, where 3.4.2.2 has
//     it ignored: "If the TYPE is SOA and there is no Zone SOA RR"
//   - NS at a wildcard: BIND ignores it, RFC 2136 does not say so; RFC 4592, section
//     4.2 calls it undefined
//   - an RRset required with a record twice: BIND counts it twice, 3.2.3 compares sets
//   - malformed prerequisites: we find them before any is evaluated, others in
//     turn; and BIND finds a malformed operation before it looks at prerequisites
func TestUpdatesAsOthers(t *testing.T) {
	t.Run("dynupdate", func(t *testing.T) {
		for seed := range uint64(20) {
			compareUpdates(t, seed, 100, newDynupdate(t), false)
		}
	})
	t.Run("BIND", func(t *testing.T) {
		const named = "/usr/sbin/named"
		if _, err := os.Stat(named); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("CI without BIND: %v", err)
			}
			t.Skipf("BIND is not installed: %v", err)
		}
		messages := 2000
		if testing.Short() {
			messages = 200
		}
		compareUpdates(t, 1, messages, startBIND(t, named), true)
	})
}

func compareUpdates(t *testing.T, seed uint64, messages int, p peer, ttls bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1997))
	top := uint32(1 << 20)
	g := &updates{r: r, peers: true, odd: true, serials: func() uint32 {
		if r.IntN(3) == 0 {
			return 1
		}
		top += 1 << 10
		return top
	}}
	compared := func(rrs []dns.RR) string {
		z := newModel(caseOrigin, rrs)
		for i := range z.rrs {
			if !ttls {
				z.rrs[i].ttl = 0
			}
		}
		return z.text(false)
	}
	c := candidateOf(t, updateZone)
	before := compared(transferred(c.Version()))
	if theirs := compared(p.transfer(t)); theirs != before {
		t.Fatalf("before any message ours is\n%s\ntheirs\n%s", before, theirs)
	}
	applied := 0
	for range messages {
		text := g.text()
		m := packNsupdate(t, caseOrigin, text)
		rcode, cs := planMessage(t, c, overTheWire(t, m), 1)
		if cs != nil {
			applied++
			if err := c.Apply(cs); err != nil {
				t.Fatal(err)
			}
		}
		theirCode := p.update(t, m)
		ours, theirs := compared(transferred(c.Version())), compared(p.transfer(t))
		if rcode != theirCode || ours != theirs {
			t.Fatalf("ours: %s\n%s\ntheirs: %s\n%s\nseed %d, zone before\n%s\nmessage\n%s",
				dns.RcodeToString[rcode], ours, dns.RcodeToString[theirCode], theirs, seed, before, text)
		}
		before = ours
	}
	if applied < messages/3 {
		t.Errorf("only %d of %d messages changed something: this compares little", applied, messages)
	}
}

// dynupdate is CoreDNS's own plugin, behind its tsig plugin.
type dynupdate struct {
	handler plugin.Handler
	xfer    transfer.Transferer
}

func newDynupdate(t *testing.T) *dynupdate {
	t.Helper()
	file := filepath.Join(t.TempDir(), "zone")
	if err := os.WriteFile(file, []byte(updateZone), 0o600); err != nil {
		t.Fatal(err)
	}
	setup, err := caddy.DirectiveAction("dns", "dynupdate")
	if err != nil {
		t.Fatal(err)
	}
	c := caddy.NewTestController("dns", fmt.Sprintf("dynupdate %s {\nfile %s\nallow key. * *\n}", caseOrigin, file))
	if err := setup(c); err != nil {
		t.Fatal(err)
	}
	plugins := dnsserver.GetConfig(c).Plugin
	h := plugins[len(plugins)-1](nil)
	return &dynupdate{handler: &tsig.TSIGServer{Zones: []string{caseOrigin}, Next: h}, xfer: h.(transfer.Transferer)}
}

func (d *dynupdate) update(t *testing.T, m *dns.Msg) int {
	t.Helper()
	m = overTheWire(t, m)
	m.SetTsig("key.", dns.HmacSHA256, 300, time.Now().Unix())
	w := dnstest.NewRecorder(&test.ResponseWriter{})
	if _, err := d.handler.ServeDNS(context.Background(), w, m); err != nil {
		t.Fatal(err)
	}
	return w.Msg.Rcode
}

func (d *dynupdate) transfer(t *testing.T) (rrs []dns.RR) {
	t.Helper()
	ch, err := d.xfer.Transfer(caseOrigin, 0)
	if err != nil {
		t.Fatal(err)
	}
	for part := range ch {
		rrs = append(rrs, part...)
	}
	return rrs[:len(rrs)-1]
}

// bind is a BIND of our own on loopback.
type bind struct{ address string }

var bindConfig = `
options {
	directory "%[1]s";
	listen-on port %[2]s { 127.0.0.1; };
	listen-on-v6 { none; };
	pid-file none;
	session-keyfile none;
	recursion no;
	notify no;
	dnssec-validation no;
	ixfr-from-differences no;
};
controls { };
zone "example.org" {
	type primary;
	file "%[1]s/zone";
	check-integrity no;
	check-names ignore;
	allow-update { 127.0.0.1; };
	allow-transfer { 127.0.0.1; };
	serial-update-method increment;
};
`

func startBIND(t *testing.T, named string) *bind {
	t.Helper()
	dir := t.TempDir()
	address, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("zone", "$ORIGIN "+caseOrigin+"\n"+updateZone)
	write("named.conf", fmt.Sprintf(bindConfig, dir, port))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(named, "-g", "-n", "1", "-c", filepath.Join(dir, "named.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
	b := &bind{address: address}
	ready := new(dns.Msg)
	ready.SetQuestion(caseOrigin, dns.TypeSOA)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if r, _, err := new(dns.Client).Exchange(ready, b.address); err == nil && r.Rcode == dns.RcodeSuccess && r.Authoritative {
			return b
		}
		select {
		case err := <-done:
			done <- err
			t.Fatalf("BIND ended: %v\n%s", err, bindLog(log.Name()))
		case <-tick.C:
		}
	}
	t.Fatalf("BIND does not answer\n%s", bindLog(log.Name()))
	return nil
}

var startupNoise = regexp.MustCompile(`(?m)^.*(automatic empty zone|built with|compiled by|linked to|using \d).*\n`)

func bindLog(file string) string {
	text, _ := os.ReadFile(file)
	return startupNoise.ReplaceAllString(string(text), "")
}

func (b *bind) update(t *testing.T, m *dns.Msg) int {
	t.Helper()
	r, _, err := (&dns.Client{Net: "tcp", Timeout: 10 * time.Second}).Exchange(m, b.address)
	if err != nil {
		t.Fatalf("update: %v", err)
	}
	return r.Rcode
}

func (b *bind) transfer(t *testing.T) (rrs []dns.RR) {
	t.Helper()
	m := new(dns.Msg)
	m.SetAxfr(strings.ToLower(caseOrigin))
	ch, err := new(dns.Transfer).In(m, b.address)
	if err != nil {
		t.Fatalf("AXFR: %v", err)
	}
	for part := range ch {
		if part.Error != nil {
			t.Fatalf("AXFR: %v", part.Error)
		}
		rrs = append(rrs, part.RR...)
	}
	return rrs[:len(rrs)-1]
}

package test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
)

// TestManyReloadsUnderLoad calls /reload again and again, in its long form a
// thousand times, while clients update and query: nobody is
// refused, nothing is lost, and nothing piles up.
func TestManyReloadsUnderLoad(t *testing.T) {
	p := watched(t, "", "")
	p.start()
	p.call("GET", "/reload", nil)
	before := p.warm()
	x := p.begin(2)
	reloads := 300
	if long() {
		reloads = 1000
	}
	for n := range reloads {
		if r, err := p.call("GET", "/reload", nil); err != nil || r.status != http.StatusOK {
			t.Fatalf("reload %d: got %d %s, %v", n, r.status, r.body.Code, err)
		}
	}
	x.end(t, p)
	if x.resets.Load() > 0 {
		t.Errorf("%d TCP connections were cut: /reload does not touch the server", x.resets.Load())
	}
	after := p.settled(before, slackLittle)
	t.Logf("before: %v", before)
	t.Logf("after:  %v", after)
}

// TestSIGUSR1LeavesNothingBehind reloads the Corefile again and again.
func TestSIGUSR1LeavesNothingBehind(t *testing.T) {
	p := watched(t, "", "")
	p.start()
	reload := func(n int) {
		t.Helper()
		p.signal(syscall.SIGUSR1)
		if !p.log.await(reloaded, n, 20*time.Second) {
			t.Fatalf("reload %d did not complete\n%s", n, tail(p.log.String()))
		}
	}
	for n := range 3 {
		reload(n + 1)
	}
	before := p.warm()
	reloads := 30
	if long() {
		reloads = 1000
	}
	for n := range reloads {
		reload(n + 4)
	}
	p.answers(t)
	// CoreDNS itself keeps the plugins of old configurations in its metrics and
	// hooks for a while: a handful of megabytes in a thousand reloads.
	after := p.settled(before, slackLittle+int64(reloads)*16<<10)
	t.Logf("%d reloads; before: %v; after: %v", reloads, before, after)
}

// judged is what became of a request that every policy would have to judge the same.
type judged struct{ yes, no, other atomic.Int64 }

// TestEachRequestIsJudgedByOnePolicy swaps two policies while requests come in. One
// grants only A records, the other only AAAA, both grant them for another name; so what asks for
// both at once is refused under either, and what both grant is granted. A request
// judged half by one and half by the other would be seen.
func TestEachRequestIsJudgedByOnePolicy(t *testing.T) {
	const secret = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
	p := watched(t, "tsig {\n secret test.example.org. "+secret+"\n }", "")
	g, err := policy.Generate(random{})
	if err != nil {
		t.Fatal(err)
	}
	p.token = g.Token
	text := func(id, typ, name string) string {
		return fmt.Sprintf(`token %s %s {
    update half.dyn.example.org %s
    update both.dyn.example.org A AAAA
    update *.w.dyn.example.org A AAAA
    update still.dyn.example.org
    update warm.dyn.example.org
    reload
}
key test.example.org. {
    update %s.dyn.example.org TXT
    update both.dyn.example.org TXT
}
`, id, g.Hash, typ, name)
	}
	policies := []string{text("one", "A", "left"), text("two", "AAAA", "right")}
	p.write("policy", policies[0])
	p.start()
	before := p.warm()

	var half, both, message, whole judged
	count := func(j *judged, r reply, err error) {
		switch {
		case err == nil && r.status == http.StatusOK:
			j.yes.Add(1)
		case r.status == http.StatusForbidden:
			j.no.Add(1)
		default:
			j.other.Add(1)
			t.Errorf("got %d %s, %v", r.status, r.body.Code, err)
		}
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	loop := func(do func(k int64)) {
		running.Go(func() {
			for k := int64(1); ; k++ {
				select {
				case <-stop:
					return
				default:
					do(k)
				}
			}
		})
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}, Timeout: 10 * time.Second}
	for range 2 {
		loop(func(k int64) { r, err := p.update(client, "half", v4(k), v6(k)); count(&half, r, notStatus(r, err)) })
		loop(func(k int64) { r, err := p.update(client, "both", v4(k), v6(k)); count(&both, r, notStatus(r, err)) })
	}
	send := func(j *judged, k int64, names ...string) {
		m := new(dns.Msg)
		m.SetUpdate("dyn.example.org.")
		for _, name := range names {
			m.Insert([]dns.RR{&dns.TXT{
				Hdr: dns.RR_Header{Name: name + ".dyn.example.org.", Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60},
				Txt: []string{fmt.Sprintf("update %d of %d", k, time.Now().UnixNano())},
			}})
		}
		if len(names) == 1 { // one record at a time
			m.Ns = append([]dns.RR{&dns.ANY{Hdr: dns.RR_Header{Name: names[0] + ".dyn.example.org.", Rrtype: dns.TypeTXT, Class: dns.ClassANY}}}, m.Ns...)
		}
		m.SetTsig("test.example.org.", dns.HmacSHA256, 300, time.Now().Unix())
		c := &dns.Client{Net: "tcp", Timeout: 5 * time.Second, TsigSecret: map[string]string{"test.example.org.": secret}}
		r, _, err := c.Exchange(m, p.dns)
		switch {
		case err == nil && r.Rcode == dns.RcodeSuccess:
			j.yes.Add(1)
		case err == nil && r.Rcode == dns.RcodeRefused:
			j.no.Add(1)
		default:
			j.other.Add(1)
			t.Errorf("UPDATE of %v: got %v, %v", names, r, err)
		}
	}
	loop(func(k int64) { send(&message, k, "left", "right") })
	loop(func(k int64) { send(&whole, k, "both") })

	swaps := 200
	if long() {
		swaps = 5000
	}
	for n := range swaps {
		p.write("policy", policies[(n+1)%2])
		if r, err := p.call("GET", "/reload", nil); err != nil || r.status != http.StatusOK {
			t.Fatalf("reload %d: got %d %s, %v", n, r.status, r.body.Code, err)
		}
	}
	close(stop)
	running.Wait()
	client.CloseIdleConnections()
	for name, j := range map[string]*judged{
		"A and AAAA, each of which one policy grants": &half,
		"two names, each of which one policy grants":  &message,
	} {
		t.Logf("%s: %d refused", name, j.no.Load())
		if j.yes.Load() > 0 || j.no.Load() == 0 {
			t.Errorf("%s: granted %d times, refused %d times", name, j.yes.Load(), j.no.Load())
		}
	}
	for name, j := range map[string]*judged{"A and AAAA, which both grant": &both, "a name that both grant": &whole} {
		t.Logf("%s: %d granted", name, j.yes.Load())
		if j.no.Load() > 0 || j.yes.Load() == 0 {
			t.Errorf("%s: granted %d times, refused %d times", name, j.yes.Load(), j.no.Load())
		}
	}
	for _, name := range []string{"half", "left", "right"} {
		if r, err := p.query("udp", name+".dyn.example.org", dns.TypeANY); err != nil || r.Rcode != dns.RcodeNameError {
			t.Errorf("%s: got %v, %v; want no such name", name, r, err)
		}
	}
	if !strings.Contains(p.log.String(), "by=one") || !strings.Contains(p.log.String(), "by=two") {
		t.Error("one of the policies was never in force")
	}
	t.Logf("after: %v", p.settled(before, slackLittle))
}

// notStatus leaves the errors that are no answers.
func notStatus(r reply, err error) error {
	if r.status != 0 {
		return nil
	}
	return err
}

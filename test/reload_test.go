package test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// traffic is clients at full speed on fresh connections, until stop.
type traffic struct {
	stop    chan struct{}
	running sync.WaitGroup

	updates, queries, resets atomic.Int64

	mu       sync.Mutex
	failures []string // guarded by mu
	last     map[string]string
}

func (x *traffic) fail(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failures = append(x.failures, fmt.Sprintf(format, args...))
}

func (x *traffic) loop(do func(k int64)) {
	x.running.Go(func() {
		for k := int64(1); ; k++ {
			select {
			case <-x.stop:
				return
			default:
				do(k)
			}
		}
	})
}

// begin sends updates over HTTP, each read back at once over DNS, and queries over
// UDP and TCP.
func (p *process) begin(updaters int) *traffic {
	x := &traffic{stop: make(chan struct{}), last: make(map[string]string)}
	for n := range updaters {
		name := host(n)
		x.loop(func(k int64) {
			if _, err := p.update(nil, name, v4(k)); err != nil {
				x.fail("updating %s: %v", name, err)
				return
			}
			x.updates.Add(1)
			x.mu.Lock()
			x.last[name] = v4(k)
			x.mu.Unlock()
			r, err := p.query("udp", name+".dyn.example.org", dns.TypeA)
			if err != nil {
				x.fail("reading %s back: %v", name, err)
			} else if len(r.Answer) != 1 || r.Answer[0].(*dns.A).A.String() != v4(k) {
				x.fail("%s was updated to %s, the next query has %v", name, v4(k), r.Answer)
			}
		})
	}
	for _, network := range []string{"udp", "tcp"} {
		x.loop(func(int64) {
			r, err := p.query(network, "ns1.dyn.example.org", dns.TypeA)
			// At a reload the host closes the connections that the old server holds,
			// also those it has only just accepted; with whoami alone in the block it
			// does the same. Such a client tries again, and may meet the next reload.
			for try := 0; err != nil && network == "tcp" && try < 5; try++ {
				x.resets.Add(1)
				r, err = p.query(network, "ns1.dyn.example.org", dns.TypeA)
			}
			if err != nil || len(r.Answer) != 1 {
				x.fail("query over %s: %v %v", network, r, err)
			}
			x.queries.Add(1)
		})
	}
	return x
}

// end stops the clients and reports what failed.
func (x *traffic) end(t *testing.T, p *process) {
	t.Helper()
	close(x.stop)
	x.running.Wait()
	for i, f := range x.failures {
		if i == 10 {
			t.Errorf("and %d more", len(x.failures)-i)
			break
		}
		t.Error(f)
	}
	for name, want := range x.last {
		if got := p.address(name, dns.TypeA); got != want {
			t.Errorf("%s: got %s, want the last acknowledged %s", name, got, want)
		}
	}
	if x.updates.Load() == 0 || x.queries.Load() == 0 {
		t.Errorf("%d updates and %d queries prove nothing", x.updates.Load(), x.queries.Load())
	}
	t.Logf("%d updates, %d queries, %d of them again over TCP", x.updates.Load(), x.queries.Load(), x.resets.Load())
}

const reloaded = "Reloading complete"

func TestCorefileReloadsBySignalUnderLoad(t *testing.T) {
	p := prepare(t)
	p.start()
	x := p.begin(4)
	reloads := 100
	for n := range reloads {
		p.write("Corefile", p.corefile("", fmt.Sprintf("ttl %d", 60+n)))
		p.signal(syscall.SIGUSR1)
		if !p.log.await(reloaded, n+1, 20*time.Second) {
			t.Fatalf("reload %d did not complete\n%s", n+1, tail(p.log.String()))
		}
	}
	x.end(t, p)
	if _, err := p.query("udp", "w0.dyn.example.org", dns.TypeA); err != nil {
		t.Fatal(err)
	}
	if _, err := p.update(nil, "w0", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if r, err := p.query("udp", "w0.dyn.example.org", dns.TypeA); err != nil || r.Answer[0].Header().Ttl != uint32(60+reloads-1) {
		t.Errorf("the last Corefile does not count: %v %v", r, err)
	}
}

func TestCorefileReloadsByThePluginUnderLoad(t *testing.T) {
	p := prepare(t)
	corefile := func(ttl int) string { return p.corefile("reload 2s 1s", fmt.Sprintf("ttl %d", ttl)) }
	p.write("Corefile", corefile(60))
	p.start()
	x := p.begin(4)
	for n := range 3 {
		p.write("Corefile", corefile(61+n))
		if !p.log.await(reloaded, n+1, 20*time.Second) {
			t.Fatalf("reload %d did not complete\n%s", n+1, tail(p.log.String()))
		}
	}
	x.end(t, p)
}

func TestFailedReloadKeepsTheOldConfiguration(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := prepare(t)
	p.start()
	good := p.corefile("", "")
	p.write("broken.zone", "@ 60 SOA nonsense\n")
	p.write("broken.policy", "token x {\n}\n")
	tests := []struct{ name, corefile string }{
		{"an unknown property", p.corefile("", "nonsense")},
		{"a missing policy", strings.Replace(good, "policy policy", "policy nowhere", 1)},
		{"a broken policy", strings.Replace(good, "policy policy", "policy broken.policy", 1)},
		{"a broken zone file", p.corefile("", "file broken.zone")},
		{"an HTTP port in use", strings.Replace(good, "http "+p.http, "http "+taken.Addr().String(), 1)},
		{"a store that cannot be made", strings.Replace(good, "bolt ddns.db", "bolt nowhere/ddns.db", 1)},
		{"another plugin that cannot start", p.corefile("prometheus "+taken.Addr().String()+"\n health "+taken.Addr().String(), "ttl 5")},
	}
	x := p.begin(2)
	for n, test := range tests {
		p.write("Corefile", test.corefile)
		p.signal(syscall.SIGUSR1)
		if !p.log.await("[ERROR] SIGUSR1: ", n+1, 10*time.Second) {
			t.Errorf("%s: the reload did not fail\n%s", test.name, tail(p.log.String()))
		}
		if _, err := p.update(nil, "after", v4(int64(n))); err != nil {
			t.Errorf("%s: updates are no longer taken: %v", test.name, err)
		}
	}
	p.write("Corefile", good)
	p.signal(syscall.SIGUSR1)
	if !p.log.await(reloaded, 1, 10*time.Second) {
		t.Errorf("a good Corefile is no longer taken\n%s", tail(p.log.String()))
	}
	x.end(t, p)
}

func TestReloadMovesTheHTTPAddressAndChangesZones(t *testing.T) {
	p := prepare(t)
	p.start()
	if _, err := p.update(nil, "a", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	old := p.http
	p.http = freeAddress(t)
	other := fmt.Sprintf(`other.example.org:%s {
    bind 127.0.0.1
    ddns {
        ns ns1.other.example.org 127.0.0.1
        store bolt ddns.db
        policy policy
        http %s
    }
}
`, port(p.dns), p.http)
	p.write("Corefile", p.corefile("", "")+other)
	p.signal(syscall.SIGUSR1)
	if !p.log.await(reloaded, 1, 10*time.Second) {
		t.Fatalf("%s", tail(p.log.String()))
	}
	if _, err := p.update(nil, "a", "192.0.2.2"); err != nil {
		t.Errorf("at the new address: %v", err)
	}
	if c, err := net.DialTimeout("tcp", old, time.Second); err == nil {
		c.Close()
		t.Error("the old address is still open")
	}
	if r, err := p.query("udp", "ns1.other.example.org", dns.TypeA); err != nil || len(r.Answer) != 1 {
		t.Errorf("the zone that was added: %v %v", r, err)
	}
	// And without any stanza the port is closed, the zone no longer answered.
	p.write("Corefile", fmt.Sprintf("dyn.example.org:%s {\n bind 127.0.0.1\n whoami\n}\n", port(p.dns)))
	p.signal(syscall.SIGUSR1)
	if !p.log.await(reloaded, 2, 10*time.Second) {
		t.Fatalf("%s", tail(p.log.String()))
	}
	if c, err := net.DialTimeout("tcp", p.http, time.Second); err == nil {
		c.Close()
		t.Error("the address of a stanza that is gone is still open")
	}
	// What was stored is there when it comes back.
	p.write("Corefile", p.corefile("", ""))
	p.signal(syscall.SIGUSR1)
	if !p.log.await(reloaded, 3, 10*time.Second) {
		t.Fatalf("%s", tail(p.log.String()))
	}
	if got := p.address("a", dns.TypeA); got != "192.0.2.2" {
		t.Errorf("a: got %q", got)
	}
}

func TestEndWithLameduck(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			p := prepare(t)
			p.write("Corefile", p.corefile("health "+freeAddress(t)+" {\n lameduck 2s\n }", ""))
			p.start()
			if _, err := p.update(nil, "a", "192.0.2.1"); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			p.signal(sig)
			refused, answered := 0, 0
			for time.Since(began) < 1500*time.Millisecond {
				r, err := p.call("GET", "/update?fqdn=a.dyn.example.org&ip=192.0.2.2", nil)
				switch {
				case err != nil:
					t.Fatalf("HTTP %v after the signal: %v", time.Since(began), err)
				case r.status == http.StatusServiceUnavailable:
					if r.header.Get("Retry-After") == "" || r.body.Code != "stopping" {
						t.Errorf("got %v %v", r.header, r.body)
					}
					refused++
				case refused > 0:
					t.Errorf("an update got %d after one was refused", r.status)
				}
				if q, err := p.query("udp", "a.dyn.example.org", dns.TypeA); err != nil || len(q.Answer) != 1 {
					t.Fatalf("DNS %v after the signal: %v %v", time.Since(began), q, err)
				}
				answered++
			}
			if refused == 0 || answered == 0 {
				t.Errorf("%d updates refused, %d queries answered", refused, answered)
			}
			if code := p.wait(10 * time.Second); code != 0 {
				t.Errorf("exit status %d\n%s", code, tail(p.log.String()))
			}
		})
	}
}

func tail(s string) string {
	lines := strings.Split(s, "\n")
	if len(lines) > 30 {
		lines = lines[len(lines)-30:]
	}
	return strings.Join(lines, "\n")
}

// TestNameServerWithoutAnAddressIsToldOf: it is in the zone, and the operator's, so that no
// update can give it one either.
func TestNameServerWithoutAnAddressIsToldOf(t *testing.T) {
	p := prepare(t)
	p.write("Corefile", strings.Replace(p.corefile("", ""), "ns ns1.dyn.example.org 127.0.0.1", "ns ns1.dyn.example.org\n ns ns2.example.net", 1))
	p.start()
	const want = "has the name server ns1.dyn.example.org. in it, and no address for it"
	if !p.log.await(want, 1, 10*time.Second) || strings.Contains(p.log.String(), "ns2.example.net. in it") {
		t.Errorf("it said\n%s", tail(p.log.String()))
	}
}

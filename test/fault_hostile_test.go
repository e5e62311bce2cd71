package test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestHostileClientsAreCutOff has clients that send a header or a body an octet at a
// time, that ask and never read, or that do not go on: to each listener, at the same
// time. The server itself ends every one of them within its time limits, answers
// others meanwhile, and is left as it was.
func TestHostileClientsAreCutOff(t *testing.T) {
	t.Parallel()
	const each = 100
	socket := filepath.Join(socketDir(t), "hooks")
	p := watched(t, "", "grpc unix://"+socket)
	p.start()
	if err := healthy(t, socket, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	before := p.warm()
	var many []string
	for k := int64(1); k <= 60; k++ {
		many = append(many, v4(k))
	}
	if _, err := p.update(nil, "many", many...); err != nil {
		t.Fatal(err)
	}
	query := new(dns.Msg)
	query.SetQuestion("many.dyn.example.org.", dns.TypeA)
	wire, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	message := framed(wire)
	get := "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
	slowHeader := "GET /ping HTTP/1.1\r\nHost: x\r\nX-Slow: " + strings.Repeat("x", 1000)
	slowBody := "POST /update?fqdn=a.dyn.example.org HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
	attacks := []struct {
		name, network, address string
		first, drip            string
		flood                  []byte // sent over and over, and nothing read
		limit                  time.Duration
	}{
		{"a slow header", "tcp", p.http, "", slowHeader, nil, 15 * time.Second},
		{"a slow body", "tcp", p.http, slowBody, strings.Repeat("x", 1000), nil, 20 * time.Second},
		{"HTTP answers that are not read", "tcp", p.http, "", "", []byte(strings.Repeat(get, 100)), 20 * time.Second},
		{"a slow message", "tcp", p.dns, "\x00\xff", strings.Repeat("\x00", 255), nil, 15 * time.Second},
		{"DNS answers that are not read", "tcp", p.dns, "", "", bytes.Repeat(message, 100), 20 * time.Second},
		{"a slow greeting", "unix", socket, "PRI * HTTP/2.0\r\n", strings.Repeat("x", 1000), nil, 15 * time.Second},
	}
	var running sync.WaitGroup
	for _, a := range attacks {
		clients := each
		switch {
		case a.network == "unix":
			clients = 32 // half of the places there are
		case a.flood != nil:
			clients = 4 // megabytes each, until the kernel takes no more
		}
		var mu sync.Mutex
		var longest time.Duration
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				c, err := net.Dial(a.network, a.address)
				if err != nil {
					t.Errorf("%s: %v", a.name, err)
					return
				}
				t.Cleanup(func() { c.Close() }) // not before the server has shown to be rid of it
				began := time.Now()
				if a.flood != nil {
					_ = c.SetWriteDeadline(began.Add(a.limit))
					for err = error(nil); err == nil; {
						_, err = c.Write(a.flood)
					}
				} else {
					_, err = io.WriteString(c, a.first)
					for i := 0; err == nil && i < len(a.drip) && time.Since(began) < a.limit; i++ {
						time.Sleep(200 * time.Millisecond)
						_, err = io.WriteString(c, a.drip[i:i+1])
					}
				}
				took := time.Since(began)
				// Who does not read may learn late that the other side has gone: the
				// kernel asks at ever longer intervals whether there is room again.
				if e, ok := err.(net.Error); a.flood == nil && (err == nil || ok && e.Timeout()) {
					t.Errorf("%s: still there after %v", a.name, took)
				}
				mu.Lock()
				longest = max(longest, took)
				mu.Unlock()
			})
		}
		running.Go(func() {
			group.Wait()
			t.Logf("%s: %d clients, cut off after %v at the latest", a.name, clients, longest)
		})
	}
	over := make(chan struct{})
	go func() { running.Wait(); close(over) }()
	answered := 0
	for done := false; !done; {
		p.answers(t)
		answered++
		select {
		case <-over:
			done = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Logf("answered %d times meanwhile", answered)
	if err := healthy(t, socket, 10*time.Second); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	t.Logf("before: %v", before)
	t.Logf("after:  %v", p.settled(before, slackLittle)) // while the clients are still there
}

// framed is a message as it goes over TCP.
func framed(wire []byte) []byte {
	return append([]byte{byte(len(wire) >> 8), byte(len(wire))}, wire...)
}

// mutate changes some octets of a message, cuts it, repeats some of it, or makes
// one up.
func mutate(r *rand.Rand, from []byte) []byte {
	b := bytes.Clone(from)
	switch r.IntN(6) {
	case 0:
		b = make([]byte, r.IntN(600))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	case 1:
		b = b[:r.IntN(len(b)+1)]
	case 2:
		at := r.IntN(len(b))
		b = append(b[:at:at], append(bytes.Repeat(b[at:at+1], 1+r.IntN(2000)), b[at:]...)...)
	default:
		for range 1 + r.IntN(8) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
	}
	return b
}

// TestMalformedBytes sends what is nearly right, and what is not right at all, to
// each listener, and asks afterwards whether somebody is still at home. The zone
// must not have changed: nothing of it is signed or has a token.
func TestMalformedBytes(t *testing.T) {
	t.Parallel()
	messages := 1500
	if long() {
		messages = 100_000
	}
	socket := filepath.Join(socketDir(t), "hooks")
	p := watched(t, "", "grpc unix://"+socket)
	p.start()
	if err := healthy(t, socket, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	before := p.warm()
	serial := p.serialTCP(t)
	update := new(dns.Msg)
	update.SetUpdate("dyn.example.org.")
	update.Insert([]dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: "a.dyn.example.org.", Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{"x"}}})
	axfr := new(dns.Msg)
	axfr.SetAxfr("dyn.example.org.")
	edns := new(dns.Msg)
	edns.SetQuestion("a.dyn.example.org.", dns.TypeANY)
	edns.SetEdns0(4096, true)
	var dnsSeeds, framedSeeds [][]byte
	for _, m := range []*dns.Msg{update, axfr, edns} {
		wire, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		dnsSeeds = append(dnsSeeds, wire)
		framedSeeds = append(framedSeeds, framed(wire))
	}
	http1 := [][]byte{
		[]byte("GET /update?fqdn=a.dyn.example.org&ip=192.0.2.1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ddns_x_y\r\nConnection: close\r\n\r\n"),
		[]byte("POST /reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"),
		[]byte("DELETE /update?fqdn=%61 HTTP/1.0\r\nX-Source-IP: 192.0.2.1, ::1\r\nContent-Length: 3\r\n\r\nabc"),
		[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a greeting of TLS"),
	}
	// A greeting, settings, and the headers of a call, as any client begins.
	grpc := [][]byte{[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
		"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64" +
		"\x00\x00\x07\x01\x04\x00\x00\x00\x01\x83\x86\x84\x40\x01a\x01" +
		"\x00\x00\x05\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00")}
	targets := []struct {
		name, network, address string
		seeds                  [][]byte
	}{
		{"DNS over UDP", "udp", p.dns, dnsSeeds},
		{"DNS over TCP", "tcp", p.dns, framedSeeds},
		{"HTTP", "tcp", p.http, http1},
		{"gRPC", "unix", socket, grpc},
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, target := range targets {
		t.Run(target.name, func(t *testing.T) {
			var running sync.WaitGroup
			for worker := range 8 {
				r := rand.New(rand.NewPCG(seed, uint64(i*8+worker)))
				running.Go(func() {
					for range messages / 8 {
						c, err := net.DialTimeout(target.network, target.address, 5*time.Second)
						if err != nil {
							t.Errorf("it does not let anybody in: %v", err)
							return
						}
						_, _ = c.Write(mutate(r, target.seeds[r.IntN(len(target.seeds))]))
						if r.IntN(4) == 0 && target.network != "udp" {
							_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
							_, _ = bufio.NewReader(c).ReadByte()
						}
						c.Close()
					}
				})
			}
			running.Wait()
			if got := p.serialTCP(t); got != serial {
				t.Errorf("the zone changed: serial %d, was %d", got, serial)
			}
			if resp, err := fresh.Get("http://" + p.http + "/ping"); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("ping: %v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
			if err := healthy(t, socket, 10*time.Second); err != nil {
				t.Errorf("gRPC: %v", err)
			}
		})
	}
	p.answers(t)
	if said := p.log.String(); strings.Contains(said, "panic") || strings.Contains(said, "Panic") || strings.Contains(said, "Recovered") {
		t.Errorf("something panicked:\n%s", tail(said))
	}
	t.Logf("before: %v", before)
	t.Logf("after:  %v", p.settled(before, slackLittle))
}

// serialTCP is the zone's serial, asked for where no datagram is dropped.
func (p *process) serialTCP(t *testing.T) uint32 {
	t.Helper()
	r, err := p.query("tcp", "dyn.example.org", dns.TypeSOA)
	if err != nil {
		t.Fatal(err)
	}
	return r.Answer[0].(*dns.SOA).Serial
}

// TestTransfersSeeWholeUpdates fetches the zone again and again, from many
// secondaries at once, while updates change two records of a name together; and
// others ask for it and never read.
func TestTransfersSeeWholeUpdates(t *testing.T) {
	names, secondaries, idle, length := 2000, 12, 80, 3*time.Second
	if long() {
		names, secondaries, idle, length = 50_000, 48, 200, 60*time.Second
	}
	p := watched(t, "transfer {\n to *\n }", "")
	p.start()
	fill := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second}
	defer fill.CloseIdleConnections()
	var filling sync.WaitGroup
	for w := range 32 {
		filling.Go(func() {
			for n := w; n < names; n += 32 {
				if _, err := p.update(fill, fmt.Sprintf("n%d", n), v4(1), v6(1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
	if _, _, err := p.transfer(); err != nil {
		t.Fatal(err)
	}
	fill.CloseIdleConnections()
	before := p.warm()
	ask := new(dns.Msg)
	ask.SetAxfr("dyn.example.org.")
	wire, err := ask.Pack()
	if err != nil {
		t.Fatal(err)
	}
	deaf := gather("tcp", p.dns, string(framed(wire)), idle)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for w := range 4 {
		running.Go(func() {
			for k := int64(2); ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := p.update(fill, fmt.Sprintf("n%d", (int(k)*4+w)%names), v4(k), v6(k)); err != nil {
					t.Errorf("updating: %v", err)
				}
			}
		})
	}
	var mu sync.Mutex
	complete, refused := 0, 0
	for range secondaries {
		running.Go(func() {
			var last uint32
			for {
				select {
				case <-stop:
					return
				default:
				}
				serial, pairs, err := p.transfer()
				mu.Lock()
				switch {
				case err != nil && strings.Contains(err.Error(), "SERVFAIL"):
					refused++ // there are as many as may be
				case err != nil:
					t.Errorf("transferring: %v", err)
				case pairs < names || serial < last:
					t.Errorf("got %d names of %d, serial %d after %d", pairs, names, serial, last)
				default:
					last = serial
					complete++
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(length)
	during := p.footprint()
	p.answers(t)
	deaf.leave()
	time.Sleep(length / 2)
	close(stop)
	running.Wait()
	fill.CloseIdleConnections()
	t.Logf("%d transfers complete, %d refused for their number", complete, refused)
	if complete < secondaries {
		t.Errorf("%d transfers were complete: that proves little", complete)
	}
	t.Logf("before: %v", before)
	t.Logf("during: %v", during)
	if grown := during.resident - before.resident; grown > 200<<20 {
		t.Errorf("transfers take %d MiB", grown>>20)
	}
	t.Logf("after:  %v", p.settled(before, slackLittle+4<<20))
}

// transfer fetches the zone and wants each name's A and AAAA records to be of one
// update.
func (p *process) transfer() (serial uint32, pairs int, err error) {
	ask := new(dns.Msg)
	ask.SetAxfr("dyn.example.org.")
	x := &dns.Transfer{DialTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second}
	envelopes, err := x.In(ask, p.dns)
	if err != nil {
		return 0, 0, err
	}
	defer x.Close()
	a, aaaa := make(map[string]int64), make(map[string]int64)
	var serials []uint32
	for e := range envelopes {
		if e.Error != nil {
			err = e.Error
			continue
		}
		for _, rr := range e.RR {
			name := rr.Header().Name
			switch rr := rr.(type) {
			case *dns.SOA:
				serials = append(serials, rr.Serial)
			case *dns.A:
				a[name] = number(rr.A.String())
			case *dns.AAAA:
				aaaa[name] = number(rr.AAAA.String())
			}
		}
	}
	if err != nil {
		if strings.Contains(err.Error(), "bad xfr rcode: 2") {
			err = fmt.Errorf("SERVFAIL: %w", err)
		}
		return 0, 0, err
	}
	if len(serials) != 2 || serials[0] != serials[1] {
		return 0, 0, fmt.Errorf("the serials of its SOA records are %v", serials)
	}
	for name, k := range aaaa {
		if a[name] != k {
			return 0, 0, fmt.Errorf("%s is half updated: A of update %d, AAAA of update %d", name, a[name], k)
		}
	}
	return serials[0], len(aaaa), nil
}

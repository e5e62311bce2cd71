package test

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

type random struct{}

func (random) Read(b []byte) (int, error) { return crand.Read(b) }

// TestNoAcknowledgedUpdateIsLostToSIGKILL has 64 writers, each with names of its
// own, count up in their addresses while the server is killed at random moments.
// After each restart every name must be at least where it was acknowledged, or was
// seen by a query, and no further than it was sent; and its A and AAAA records,
// which are updated together, must agree.
func TestNoAcknowledgedUpdateIsLostToSIGKILL(t *testing.T) {
	const writers = 64
	rounds := 30
	if long() {
		rounds = 300
	}
	p := prepare(t)
	type counter struct {
		sent, acknowledged, seen atomic.Int64
	}
	var names [writers]counter
	var serial atomic.Uint32
	total := 0
	for round := range rounds {
		p.start()
		if got := p.serial(); got < serial.Load() {
			t.Fatalf("round %d: serial %d, but %d was acknowledged", round, got, serial.Load())
		}
		for n := range writers {
			c := &names[n]
			v4, v6 := number(p.address(host(n), dns.TypeA)), number(p.address(host(n), dns.TypeAAAA))
			switch {
			case v4 != v6:
				t.Fatalf("round %d: %s is half updated: A of update %d, AAAA of update %d", round, host(n), v4, v6)
			case v4 < c.acknowledged.Load():
				t.Fatalf("round %d: %s is at %d, but %d was acknowledged", round, host(n), v4, c.acknowledged.Load())
			case v4 < c.seen.Load():
				t.Fatalf("round %d: %s is at %d, but a query had seen %d", round, host(n), v4, c.seen.Load())
			case v4 > c.sent.Load():
				t.Fatalf("round %d: %s is at %d, but only %d were sent", round, host(n), v4, c.sent.Load())
			}
		}
		var running sync.WaitGroup
		stop := make(chan struct{})
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}, Timeout: 10 * time.Second}
		for n := range writers {
			running.Go(func() {
				c := &names[n]
				for {
					select {
					case <-stop:
						return
					default:
					}
					k := c.sent.Add(1)
					r, err := p.update(client, host(n), v4(k), v6(k))
					if err != nil {
						return // killed
					}
					c.acknowledged.Store(k)
					for s := serial.Load(); r.body.Serial > s && !serial.CompareAndSwap(s, r.body.Serial); s = serial.Load() {
					}
				}
			})
		}
		running.Go(func() { // visible is durable
			for n := 0; ; n = (n + 1) % writers {
				select {
				case <-stop:
					return
				default:
				}
				r, err := p.query("udp", host(n)+".dyn.example.org", dns.TypeA)
				if err != nil {
					return
				}
				for _, rr := range r.Answer {
					names[n].seen.Store(max(names[n].seen.Load(), number(rr.(*dns.A).A.String())))
				}
			}
		})
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // the random moment
		p.kill()
		close(stop)
		running.Wait()
		client.CloseIdleConnections()
		now := 0
		for n := range writers {
			now += int(names[n].acknowledged.Load())
		}
		total = now
	}
	if total < rounds {
		t.Errorf("only %d updates were acknowledged in %d rounds: that proves nothing", total, rounds)
	}
	t.Logf("%d updates acknowledged in %d rounds", total, rounds)
}

func host(n int) string { return fmt.Sprintf("w%d", n) }

// v4 and v6 are the addresses that stand for an update's number.
func v4(k int64) string {
	return netip.AddrFrom4([4]byte{10, byte(k >> 16), byte(k >> 8), byte(k)}).String()
}

func v6(k int64) string {
	return netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0xd, 3: 0xb8, 13: byte(k >> 16), 14: byte(k >> 8), 15: byte(k)}).String()
}

// number is the update that an address stands for, 0 for "".
func number(address string) int64 {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return 0
	}
	b := a.AsSlice()
	b = b[len(b)-3:]
	return int64(b[0])<<16 | int64(b[1])<<8 | int64(b[2])
}

package test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestQueriesDoNotWaitForASlowDisk compares the time that queries take while
// updates wait for a slow disk with the time they take while
// nothing is written: in turns, so that a busy machine is busy for both.
func TestQueriesDoNotWaitForASlowDisk(t *testing.T) {
	const delay = 300 * time.Millisecond
	p := prepare(t)
	slowly := straced{"fdatasync", fmt.Sprintf("delay_enter=%d", delay.Microseconds()), ""}
	output := filepath.Join(p.dir, "strace.out")
	// With --seccomp-bpf no other call is slower than it is.
	p.start(append([]string{needStrace(t), "-D", "--seccomp-bpf"}, slowly.arguments(output)...)...)
	if _, err := p.update(nil, "a", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	rounds, length := 3, 700*time.Millisecond
	if long() {
		rounds, length = 20, 2*time.Second
	}
	conn, err := dns.Dial("udp", p.dns)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &dns.Client{Timeout: 2 * time.Second}
	ask := func(into []time.Duration) []time.Duration {
		for end := time.Now().Add(length); time.Now().Before(end); {
			m := new(dns.Msg)
			m.SetQuestion("a.dyn.example.org.", dns.TypeA)
			began := time.Now()
			if r, _, err := c.ExchangeWithConn(m, conn); err != nil || len(r.Answer) != 1 {
				t.Fatalf("got %v, %v", r, err)
			}
			into = append(into, time.Since(began))
		}
		return into
	}
	var quiet, slow []time.Duration
	for range rounds {
		quiet = ask(quiet)
		stop := make(chan struct{})
		var running sync.WaitGroup
		for w := range 4 {
			running.Go(func() {
				for k := int64(1); ; k++ {
					select {
					case <-stop:
						return
					default:
					}
					began := time.Now()
					if _, err := p.update(nil, host(w), v4(began.UnixNano()&0xffffff)); err != nil {
						t.Errorf("updating: %v", err)
						return
					}
					if took := time.Since(began); took < delay {
						t.Errorf("an update took %v on a disk that takes %v: it was not durable, or the disk not slow", took, delay)
					}
				}
			})
		}
		slow = ask(slow)
		close(stop)
		running.Wait()
	}
	p.kill()
	b, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	syncs := bytes.Count(b, []byte("(DELAYED)"))
	slices.Sort(quiet)
	slices.Sort(slow)
	at := func(d []time.Duration, q float64) time.Duration { return d[int(q*float64(len(d)-1))] }
	for _, q := range []float64{0.5, 0.9, 0.99} {
		t.Logf("quantile %.2f: %v without updates, %v with a slow disk", q, at(quiet, q), at(slow, q))
	}
	t.Logf("%d and %d queries, %d slow syncs", len(quiet), len(slow), syncs)
	// One query that waited would take hundreds of times as long as the others.
	if at(slow, 0.9) > 3*at(quiet, 0.9) || at(slow, 0.99) > 5*max(at(quiet, 0.99), 2*time.Millisecond) {
		t.Errorf("queries wait for the disk")
	}
	// A busy machine makes one wait now and then, in both; a disk that is in the way
	// would with each of its syncs.
	waited := func(d []time.Duration) int {
		n, _ := slices.BinarySearch(d, delay/2)
		return len(d) - n
	}
	t.Logf("%d and %d queries took longer than %v", waited(quiet), waited(slow), delay/2)
	if syncs < rounds || waited(slow)-waited(quiet) > syncs/4 {
		t.Errorf("%d queries took longer than %v while %d syncs were slow", waited(slow), delay/2, syncs)
	}
}

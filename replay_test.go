package ddns

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

func TestReplayIsKnownForAsLongAsTheSignatureIsGood(t *testing.T) {
	var c replayCache
	start := time.Unix(1_800_000_000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	// Fill the first generation at its very end, so that it is the soonest forgotten.
	c.begin(&signature{id: replayID{1}}, start)
	seen := &signature{id: replayID{2}, sender: 7}
	if _, state := c.begin(seen, at(2*maxSkew)); state != firstSeen {
		t.Fatalf("got %v", state)
	}
	c.end(seen, dns.RcodeSuccess)
	again := *seen
	again.sender = 8
	for _, d := range []time.Duration{2 * maxSkew, 2*maxSkew + time.Second, 3 * maxSkew, 4*maxSkew - time.Second, 4 * maxSkew} {
		if _, state := c.begin(&again, at(d)); state != replayed {
			t.Errorf("after %v: got %v, want replayed", d-2*maxSkew, state)
		}
		c.begin(&signature{id: replayID{3, byte(d / time.Second)}}, at(d)) // others keep coming
	}
	c.begin(&signature{id: replayID{4}}, at(5*maxSkew))
	c.begin(&signature{id: replayID{5}}, at(8*maxSkew))
	if len(c.past) != 1 || len(c.now) != 1 {
		t.Errorf("remembers %d and %d messages, long after they could be played", len(c.past), len(c.now))
	}
}

// What nobody can play again any more is not kept, whether others come or not.
func TestReplayMemoryIsGivenBack(t *testing.T) {
	t.Run("when one comes after a while", func(t *testing.T) {
		var c replayCache
		start := time.Unix(1_800_000_000, 0)
		c.begin(&signature{id: replayID{1}}, start)
		c.begin(&signature{id: replayID{2}}, start.Add(2*replayWindow+time.Second))
		if len(c.past) != 0 || len(c.now) != 1 {
			t.Errorf("remembers %d and %d messages", len(c.past), len(c.now))
		}
	})
	t.Run("when none comes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c replayCache
			size := func() int {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.past) + len(c.now)
			}
			for n := range 3 {
				c.begin(&signature{id: replayID{byte(n)}}, time.Now())
				time.Sleep(replayWindow + time.Second)
			}
			if got := size(); got != 2 {
				t.Errorf("remembers %d messages, want the last two", got)
			}
			time.Sleep(replayWindow + time.Second)
			if got := size(); got != 0 {
				t.Errorf("remembers %d messages when all is quiet", got)
			}
			last := &signature{id: replayID{9}, sender: 7}
			c.begin(last, time.Now())
			last.sender = 8
			if _, state := c.begin(last, time.Now()); state != replayed {
				t.Errorf("afterwards: got %v, want replayed", state)
			}
		})
	})
}

func TestRetransmissionGetsTheFirstAnswer(t *testing.T) {
	var c replayCache
	now := time.Unix(1_800_000_000, 0)
	s := &signature{id: replayID{1}, sender: 7}
	c.begin(s, now)
	if _, state := c.begin(s, now); state != inProgress {
		t.Errorf("while the first copy is at work: got %v, want inProgress", state)
	}
	c.end(s, dns.RcodeYXDomain)
	if rcode, state := c.begin(s, now); state != retransmitted || rcode != dns.RcodeYXDomain {
		t.Errorf("got %v %v, want retransmitted YXDOMAIN", state, rcode)
	}
	t.Run("but SERVFAIL is tried again", func(t *testing.T) {
		s := &signature{id: replayID{2}, sender: 7}
		c.begin(s, now)
		c.end(s, dns.RcodeServerFailure)
		if _, state := c.begin(s, now); state != firstSeen {
			t.Errorf("got %v, want firstSeen", state)
		}
	})
}

// stuckWriter is a secondary that does not read.
type stuckWriter struct {
	dns.ResponseWriter
	closed chan struct{}
}

func (w *stuckWriter) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 53}
}

func (w *stuckWriter) WriteMsg(*dns.Msg) error {
	<-w.closed
	return errors.New("use of closed network connection")
}

func (w *stuckWriter) Close() error { close(w.closed); return nil }

func TestTransferToASecondaryThatDoesNotReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &transferWriter{ResponseWriter: &stuckWriter{closed: make(chan struct{})}}
		began := time.Now()
		if err := w.WriteMsg(new(dns.Msg)); err == nil {
			t.Error("the write succeeded")
		}
		if took := time.Since(began); took != transferPatience {
			t.Errorf("it took %v, want %v", took, transferPatience)
		}
	})
}

func TestClientThatAsksAndDoesNotReadIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := writeAnswer(&stuckWriter{closed: make(chan struct{})}, new(dns.Msg)); err == nil {
			t.Error("the write succeeded")
		}
		if took := time.Since(began); took != answerPatience {
			t.Errorf("it took %v, want %v", took, answerPatience)
		}
	})
}

// BenchmarkReplayMemory reports what a remembered message takes.
func BenchmarkReplayMemory(b *testing.B) {
	const n = replayLimit
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	now := time.Unix(1_800_000_000, 0)
	var c replayCache
	before := heap()
	for b.Loop() {
		c.now = nil
		for i := range n {
			c.begin(&signature{id: replayID{byte(i), byte(i >> 8), byte(i >> 16)}}, now)
		}
		c.past = nil
	}
	b.ReportMetric((heap()-before)/n, "heap-B/message")
	c.idle.Stop()
}

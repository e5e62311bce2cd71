package ddns

import (
	"sync"
	"time"

	"github.com/miekg/dns"
)

// replayLimit bounds the memory of one generation, to some 170 MB (80 octets a message
// by BenchmarkReplayMemory). A primary that takes more signed updates than that in ten minutes
// forgets the oldest early.
const replayLimit = 1 << 21

// replayCache knows the signed updates of the last while, so that one that was
// captured cannot be played again (RFC 8945, section 5.2.3 leaves this to the
// server). It belongs to the process, and a reload does not empty it.
//
// A message is acceptable for twice maxSkew, from as long before the time it was
// signed as after. Each generation covers that long, and two are kept.
type replayCache struct {
	mu        sync.Mutex
	now, past map[replayID]replay // guarded by mu; generations
	turned    time.Time           // guarded by mu; when now began
	idle      *time.Timer         // guarded by mu; empties both when nothing comes any more
}

// replayWindow is how long a generation is added to.
const replayWindow = 2 * maxSkew

// replayID is a hash of a key's name and a MAC, so the message's.
type replayID [16]byte

type replay struct {
	sender uint64
	rcode  uint16
	done   bool
}

var replays replayCache

type replayState int

const (
	firstSeen replayState = iota
	replayed
	retransmitted // by the same socket and with the same id: the reply was lost
	inProgress
)

// begin notes a message. For a retransmission it returns what the first copy was
// answered.
func (c *replayCache) begin(s *signature, now time.Time) (rcode int, state replayState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || now.Sub(c.turned) > replayWindow || len(c.now) >= replayLimit {
		c.turn(now)
	}
	r, known := c.now[s.id]
	if !known {
		r, known = c.past[s.id]
	}
	switch {
	case !known:
		c.now[s.id] = replay{sender: s.sender}
		return 0, firstSeen
	case r.sender != s.sender:
		return 0, replayed
	case !r.done:
		return 0, inProgress
	default:
		return int(r.rcode), retransmitted
	}
}

// turn begins a generation. mu is held.
func (c *replayCache) turn(now time.Time) {
	c.past = c.now
	if now.Sub(c.turned) > 2*replayWindow {
		c.past = nil // even what was added at its end cannot be played any more
	}
	c.now, c.turned = make(map[replayID]replay), now
	if c.idle != nil {
		c.idle.Stop()
	}
	c.idle = time.AfterFunc(2*replayWindow+time.Second, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.turned.Equal(now) {
			c.now, c.past = nil, nil
		}
	})
}

// end notes the answer. After SERVFAIL the client may send the same message
// again and have it tried again.
func (c *replayCache) end(s *signature, rcode int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []map[replayID]replay{c.now, c.past} {
		r, ok := m[s.id]
		switch {
		case !ok:
		case rcode == dns.RcodeServerFailure:
			delete(m, s.id)
		default:
			r.done, r.rcode = true, uint16(rcode)
			m[s.id] = r
		}
	}
}

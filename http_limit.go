package ddns

import (
	"net/netip"
	"sync"
	"time"
)

// limiter holds each key to a rate. It is the generic cell rate algorithm: a key
// is one time, up to which its allowance is spent, so a burst of a whole period's
// count passes and after it one at a time.
type limiter[K comparable] struct {
	most int // keys kept; immutable

	mu    sync.Mutex
	spent map[K]time.Time // guarded by mu
	swept time.Time       // guarded by mu
}

func newLimiter[K comparable](most int) *limiter[K] {
	return &limiter[K]{most: most, spent: make(map[K]time.Time)}
}

// take counts one event against a key. It returns 0 when that was within the
// rate, and how long to wait otherwise; then it does not count.
func (l *limiter[K]) take(key K, r rate, now time.Time) time.Duration {
	if r.count <= 0 || r.per <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	spent, known := l.spent[key]
	if spent.Before(now) {
		spent = now
	}
	next := spent.Add(r.per / time.Duration(r.count))
	if wait := next.Sub(now) - r.per; wait > 0 {
		return wait
	}
	if !known {
		l.makeRoom(now)
	}
	l.spent[key] = next
	return 0
}

// makeRoom forgets keys whose allowance is whole again and, when an attacker has
// filled the table, an arbitrary one. l.mu is held.
func (l *limiter[K]) makeRoom(now time.Time) {
	if len(l.spent) < l.most {
		return
	}
	if now.Sub(l.swept) >= time.Second {
		l.swept = now
		for k, t := range l.spent {
			if !t.After(now) {
				delete(l.spent, k)
			}
		}
	}
	for k := range l.spent {
		if len(l.spent) < l.most {
			return
		}
		delete(l.spent, k)
	}
}

// peerKey is what a peer is counted as: an IPv4 address, or the /64 that one
// IPv6 customer has the whole of.
func peerKey(a netip.Addr) netip.Prefix {
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

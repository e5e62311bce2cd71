package hooks

import (
	"context"
	"sync"
)

// lanes keep runs of the same key apart: a caller that lost its connection, or was
// killed and started again, repeats a call whose first run may still be ending.
type lanes struct {
	mu   sync.Mutex
	busy map[string]*lane // guarded by mu
}

type lane struct {
	turn  chan struct{} // holds one token while nobody runs
	users int           // guarded by lanes.mu
}

// enter waits until nobody else is in the lane of key. A nil error means that it
// is the caller's until leave is called.
func (l *lanes) enter(ctx context.Context, key string) (leave func(), err error) {
	l.mu.Lock()
	if l.busy == nil {
		l.busy = make(map[string]*lane)
	}
	n := l.busy[key]
	if n == nil {
		n = &lane{turn: make(chan struct{}, 1)}
		n.turn <- struct{}{}
		l.busy[key] = n
	}
	n.users++
	l.mu.Unlock()

	forget := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n.users--; n.users == 0 {
			delete(l.busy, key)
		}
	}
	select {
	case <-n.turn:
		return func() { n.turn <- struct{}{}; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}

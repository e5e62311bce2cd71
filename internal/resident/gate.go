package resident

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// gate is a listener that bounds its connections and speaks TLS or not as the
// current configuration says. The choice is made per connection, so a reload
// that turns TLS on or off needs no new socket.
type gate struct {
	net.Listener
	limit    int
	overflow []byte
	tls      atomic.Pointer[tls.Config] // nil: plain
	ready    chan struct{}              // closed when tls says what to speak
	once     sync.Once

	mu   sync.Mutex
	live map[net.Conn]pastime // guarded by mu
}

// pastime is what a connection does, and since when.
type pastime struct {
	doing occupation
	since time.Time
}

type occupation int

const (
	working  occupation = iota // its request is being served
	idle                       // between requests, or sending the next one
	arriving                   // its request is not all there yet, or its answer not taken
)

func newGate(l net.Listener, limit int, overflow []byte) *gate {
	return &gate{Listener: l, limit: limit, overflow: overflow, ready: make(chan struct{}), live: make(map[net.Conn]pastime)}
}

// open lets connections in. Until then they wait in the kernel's queue.
func (g *gate) open() { g.once.Do(func() { close(g.ready) }) }

// Close closes the socket.
func (g *gate) Close() error {
	defer g.open()
	return g.Listener.Close()
}

// Accept waits for a connection there is room for. http.Server reports each one
// to state before it asks for the next, so the count is exact.
func (g *gate) Accept() (net.Conn, error) {
	<-g.ready
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		config := g.tls.Load()
		if !g.room() {
			g.refuse(c, config == nil)
			continue
		}
		if config != nil {
			return tls.Server(c, config), nil
		}
		return c, nil
	}
}

// minWait is how long a connection must have waited to be closed for another: its
// client may have had the last answer only now, and be about to go on.
const minWait = 100 * time.Millisecond

// room reports whether one more connection fits, after closing another when the
// gate is full: the one that has been idle longest, which clients are used to (RFC
// 9112, section 9.5), and when none is idle the one that has been longest at sending
// its request. So a crowd that connects and says nothing, or says it an octet at a
// time, does not keep those out who come to the point.
func (g *gate) room() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit <= 0 || len(g.live) < g.limit {
		return true
	}
	var chosen net.Conn
	best := pastime{doing: working}
	latest := time.Now().Add(-minWait)
	for c, p := range g.live {
		switch {
		case p.doing == working || p.since.After(latest):
		case best.doing == working,
			best.doing == arriving && p.doing == idle,
			best.doing == p.doing && p.since.Before(best.since):
			chosen, best = c, p
		}
	}
	if chosen == nil {
		return false
	}
	delete(g.live, chosen)
	if t, ok := chosen.(*tls.Conn); ok {
		chosen = t.NetConn() // not t: its Close writes, and so may wait
	}
	_ = chosen.Close()
	return true
}

// refuse tells a client that there are too many, without waiting for anything.
func (g *gate) refuse(c net.Conn, plain bool) {
	if plain && len(g.overflow) > 0 {
		_ = c.SetDeadline(time.Now().Add(100 * time.Millisecond)) // fits the socket's buffer: never waits
		_, _ = c.Write(g.overflow)
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.CloseWrite()
		}
	}
	_ = c.Close()
}

// state is http.Server's ConnState.
func (g *gate) state(c net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		g.mu.Lock()
		defer g.mu.Unlock()
		g.live[c] = pastime{arriving, time.Now()}
	case http.StateActive: // the header is complete
		g.turn(c, working)
	case http.StateIdle:
		g.turn(c, idle)
	default: // closed or hijacked
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.live, c)
	}
}

func (g *gate) turn(c net.Conn, to occupation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.live[c]; ok { // else closed by room
		g.live[c] = pastime{to, time.Now()}
	}
}

type gateKey struct{}

// context is http.Server's ConnContext.
func (g *gate) context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, gateKey{}, func(to occupation) { g.turn(c, to) })
}

// handler calls h, and from its end on takes the connection for one that waits for
// its client: what is left to http.Server is to read the rest of a body that h did
// not want, and to write an answer that may not be read.
func (g *gate) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turn, ok := r.Context().Value(gateKey{}).(func(occupation)); ok {
			defer turn(arriving)
		}
		h.ServeHTTP(w, r)
	})
}

// ReadBody calls read, which waits for the client of the request whose context
// it is given. Meanwhile the connection may be closed to make room for another.
func ReadBody(ctx context.Context, read func()) {
	turn, ok := ctx.Value(gateKey{}).(func(occupation))
	if !ok {
		read()
		return
	}
	turn(arriving)
	defer turn(working)
	read()
}

package resident

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns-ddns/ddns/internal/accept"
)

// Frontend answers the requests of one address. It lives as long as the socket,
// so what it counts survives a reload.
type Frontend[S any] interface {
	http.Handler
	// SetSites gives it what to serve: newest generation first, and within one
	// in the order of Acquire. It is called in order, never by two at once, and
	// must be quick; requests that already run keep what they began with.
	SetSites([]Member[S])
}

// Member is a site as a Frontend sees it.
type Member[S any] struct {
	Site       S
	Generation *Generation
	Stopping   bool // the process is about to end: refuse with "try again"
}

// ListenerOptions say how sockets are served.
type ListenerOptions[S any] struct {
	// Frontend makes what answers on an address when its socket is first bound.
	Frontend func(Address) Frontend[S]
	// Server makes the http.Server, with its limits; Handler, ConnState, ConnContext
	// and TLSConfig are set by the listener. HTTP/1 is all that is spoken.
	Server func() *http.Server
	// Connections is the most that are open at once; 0 is no limit. Beyond
	// it one that waits for its client is closed to make room, and when all of
	// them are being served the new one is told Overflow and closed.
	Connections int
	Overflow    []byte
	// Trouble is told when a socket takes no connections for now; may be nil.
	Trouble func(Address, error)
	// Grace bounds how long running requests may take after their socket was
	// closed.
	Grace time.Duration
}

// Listeners are the process's side listeners, by address.
type Listeners[S any] struct {
	options ListenerOptions[S]
	table   Table[string, *listener[S]]
	drains  sync.WaitGroup

	mu   sync.Mutex
	open map[*listener[S]]struct{} // guarded by mu
}

// NewListeners returns Listeners without any socket.
func NewListeners[S any](o ListenerOptions[S]) *Listeners[S] {
	return &Listeners[S]{options: o, open: make(map[*listener[S]]struct{})}
}

// Security is the TLS side of a site; nil is plain HTTP.
type Security struct {
	// Name says which certificate this is, for people and to tell whether two
	// stanzas mean the same one: the files it comes from.
	Name   string
	Config *tls.Config
}

// Site is one stanza's claim on an address.
type Site[S any] struct {
	listener   *listener[S]
	lease      *Lease[*listener[S]]
	generation *Generation
	value      S

	// guarded by listener.mu
	security *Security
	stopping bool
	gone     bool
}

// listener is one socket with what answers on it.
type listener[S any] struct {
	gate    *gate
	front   Frontend[S]
	server  *http.Server
	stopped atomic.Bool
	served  chan struct{} // closed when the accept loop ended

	mu    sync.Mutex
	sites []*Site[S] // guarded by mu; newest generation first
}

// Acquire puts a site on an address, binding its socket if no other site has.
// Stanzas of one generation that share an address must agree on TLS. An error is
// a sentence that names the address; nothing is kept then.
func (l *Listeners[S]) Acquire(g *Generation, a Address, site S, security *Security) (*Site[S], error) {
	key := string(a)
	if a.ephemeral() {
		// A port of the system's choice is a different one for each who asks.
		key = fmt.Sprintf("%s#%d", a, g.lineage)
	}
	lease, err := l.table.Acquire(nil, key, func() (*listener[S], func() error, error) { return l.bind(a) })
	if err != nil {
		return nil, err
	}
	s := &Site[S]{listener: lease.Value(), lease: lease, generation: g, value: site, security: security}
	if err := s.listener.add(s, a); err != nil {
		return nil, errors.Join(err, lease.Release())
	}
	if err := g.OnDrop(s.drop); err != nil {
		return nil, err
	}
	if g.Dropped() {
		return nil, errors.Join(ErrDropped, s.drop())
	}
	return s, nil
}

// Shutdown closes every socket, waits for running requests until ctx is done,
// and then cuts what is left. It is the end: called when the process is.
func (l *Listeners[S]) Shutdown(ctx context.Context) error {
	l.mu.Lock()
	all := make([]*listener[S], 0, len(l.open))
	for n := range l.open {
		all = append(all, n)
	}
	l.mu.Unlock()
	for _, n := range all {
		l.stop(ctx, func() {}, n)
		n.forget()
	}
	done := make(chan struct{})
	go func() { l.drains.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		for _, n := range all {
			n.server.Close()
		}
		return fmt.Errorf("stopping the HTTP listeners: %w", ctx.Err())
	}
}

// forget takes all sites off a listener that was stopped, so that who asks for the
// address again gets a new socket. What still runs is answered as it was.
func (n *listener[S]) forget() {
	n.mu.Lock()
	sites := n.sites
	n.sites = nil
	for _, s := range sites {
		s.gone = true
	}
	n.mu.Unlock()
	for _, s := range sites {
		_ = s.lease.Release() // closes nothing any more
	}
}

// bind opens a socket and starts answering on it; there is no site yet.
func (l *Listeners[S]) bind(a Address) (*listener[S], func() error, error) {
	socket, err := a.listen()
	if err != nil {
		return nil, nil, fmt.Errorf("listening on %s for HTTP: %w", a, err)
	}
	n := &listener[S]{
		front:  l.options.Frontend(a),
		server: l.options.Server(),
		served: make(chan struct{}),
	}
	socket = accept.Patiently(socket, func(err error) {
		if l.options.Trouble != nil {
			l.options.Trouble(a, err)
		}
	})
	n.gate = newGate(socket, l.options.Connections, l.options.Overflow)
	n.server.Handler = n.gate.handler(n.front)
	n.server.ConnState = n.gate.state
	n.server.ConnContext = n.gate.context
	n.server.Protocols = new(http.Protocols)
	n.server.Protocols.SetHTTP1(true)
	l.mu.Lock()
	l.open[n] = struct{}{}
	l.mu.Unlock()
	go func() {
		defer close(n.served)
		_ = n.server.Serve(n.gate) // ends when stop closes the socket
	}()
	return n, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), l.options.Grace)
		l.stop(ctx, cancel, n)
		return nil
	}, nil
}

// stop closes the socket at once, so that the address is free when it returns,
// and sees running requests off in the background, for as long as ctx lasts;
// then it calls done.
func (l *Listeners[S]) stop(ctx context.Context, done func(), n *listener[S]) {
	if n.stopped.Swap(true) {
		done()
		return
	}
	l.mu.Lock()
	delete(l.open, n)
	l.mu.Unlock()
	_ = n.gate.Close()
	<-n.served
	l.drains.Go(func() {
		defer done()
		if n.server.Shutdown(ctx) != nil {
			_ = n.server.Close()
		}
	})
}

// add makes s one of the sites.
func (n *listener[S]) add(s *Site[S], a Address) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, o := range n.sites {
		if o.generation == s.generation {
			if err := sameSecurity(a, o.security, s.security); err != nil {
				return err
			}
		}
	}
	// Whoever was waiting for the end of the process was wrong: here is a new
	// configuration.
	for _, o := range n.sites {
		if o.stopping {
			o.gone = true
			defer o.lease.Release() //nolint:errcheck // s holds the socket, so this closes nothing
		}
	}
	n.sites = slices.DeleteFunc(n.sites, func(o *Site[S]) bool { return o.gone })
	at := slices.IndexFunc(n.sites, func(o *Site[S]) bool { return s.generation.Newer(o.generation) })
	if at < 0 {
		at = len(n.sites)
	}
	n.sites = slices.Insert(n.sites, at, s)
	n.publish()
	return nil
}

func sameSecurity(a Address, x, y *Security) error {
	switch {
	case x == nil && y == nil:
		return nil
	case x == nil:
		return fmt.Errorf("address %s is plain HTTP for one stanza and TLS (%s) for another: one address has one of them", a, y.Name)
	case y == nil:
		return fmt.Errorf("address %s is plain HTTP for one stanza and TLS (%s) for another: one address has one of them", a, x.Name)
	case x.Name != y.Name:
		return fmt.Errorf("address %s has two certificates, %s and %s: stanzas that share an address share its certificate", a, x.Name, y.Name)
	}
	return nil
}

// publish tells the frontend and the gate. n.mu is held.
func (n *listener[S]) publish() {
	members := make([]Member[S], len(n.sites))
	for i, s := range n.sites {
		members[i] = Member[S]{Site: s.value, Generation: s.generation, Stopping: s.stopping}
	}
	n.front.SetSites(members)
	if len(n.sites) == 0 {
		return // about to close; what comes until then is as it was
	}
	if sec := n.sites[0].security; sec != nil {
		n.gate.tls.Store(sec.Config)
	} else {
		n.gate.tls.Store(nil)
	}
	n.gate.open()
}

// Addr is the address the socket is bound to.
func (s *Site[S]) Addr() net.Addr { return s.listener.gate.Addr() }

// SetTLS replaces the certificate for connections made from now on; those that
// are open keep theirs. It has no effect on a plain site.
func (s *Site[S]) SetTLS(c *tls.Config) {
	n := s.listener
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.gone || s.security == nil {
		return
	}
	for _, o := range n.sites { // they agreed on the files, so it is theirs too
		if o.generation == s.generation {
			o.security = &Security{Name: s.security.Name, Config: c}
		}
	}
	n.publish()
}

// Release takes the site off, as OnShutdown does: at once when a newer
// configuration took over, otherwise by marking it as stopping, with the socket
// left open. See the package comment.
func (s *Site[S]) Release() error {
	if s.generation.Replaced() || s.generation.Dropped() {
		return s.drop()
	}
	n := s.listener
	n.mu.Lock()
	defer n.mu.Unlock()
	if !s.gone && !s.stopping {
		s.stopping = true
		n.publish()
	}
	return nil
}

// drop takes the site off and closes the socket if it was the last.
func (s *Site[S]) drop() error {
	n := s.listener
	n.mu.Lock()
	if s.gone {
		n.mu.Unlock()
		return nil
	}
	s.gone = true
	n.sites = slices.DeleteFunc(n.sites, func(o *Site[S]) bool { return o == s })
	if len(n.sites) > 0 {
		n.publish()
	}
	n.mu.Unlock()
	return s.lease.Release()
}

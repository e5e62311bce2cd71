// Package accept keeps listeners going through passing errors.
//
// net/http and grpc end at the first error of accept(2) that is not among a few they
// know, and with them the service for as long as the process runs. But accept also
// fails where nothing is wrong with the socket: without memory or buffers, and with what
// the network had to say of the connection that was taken (accept(2), "Error
// handling").
package accept

import (
	"errors"
	"net"
	"sync"
	"time"
)

// The pause after the first error, which doubles with each that follows, the longest
// one, and after how long an error that goes on is told again.
const (
	shortest = 5 * time.Millisecond
	longest  = time.Second
	again    = time.Minute
)

// Patiently returns l, whose Accept fails only when the listener was closed. Any other
// error is tried again after a pause, and told: the first in a row, and then once a
// minute.
func Patiently(l net.Listener, tell func(error)) net.Listener {
	return &patient{Listener: l, tell: tell, closed: make(chan struct{})}
}

type patient struct {
	net.Listener
	tell   func(error)
	once   sync.Once
	closed chan struct{} // ends a pause
}

func (p *patient) Accept() (net.Conn, error) {
	var told time.Time
	for pause := shortest; ; pause = min(2*pause, longest) {
		c, err := p.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		if now := time.Now(); now.Sub(told) >= again {
			told = now
			p.tell(err)
		}
		select {
		case <-time.After(pause):
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
}

func (p *patient) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.Listener.Close()
}

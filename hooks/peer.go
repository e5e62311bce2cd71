package hooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// unixPeer is who is at the other end of a unix socket, as the kernel says
// (SO_PEERCRED): fixed when the connection was made.
type unixPeer struct {
	credentials.CommonAuthInfo
	ucred
}

// AuthType implements credentials.AuthInfo.
func (unixPeer) AuthType() string { return "unix" }

// guardedListener bounds the connections of a Server and asks the kernel who
// opened each.
type guardedListener struct {
	net.Listener
	server *Server
	once   sync.Once
	stop   chan struct{} // closed by Close
}

// Accept waits for a place before it takes a connection: the rest waits in the
// kernel.
func (l *guardedListener) Accept() (net.Conn, error) {
	select {
	case l.server.slots <- struct{}{}:
	case <-l.stop:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.server.slots
		return nil, err
	}
	g := &guardedConn{Conn: c, slots: l.server.slots}
	if c.LocalAddr().Network() != "unix" {
		return g, nil
	}
	g.unix = true
	if g.cred, g.err = peerCredentials(c); g.err == nil && !l.server.allowed(g.cred.uid) {
		// It is told why, once, and does not keep a place.
		g.expiry = time.AfterFunc(handshakeTime, func() { g.Close() })
	}
	return g, nil
}

func (l *guardedListener) Close() error {
	l.once.Do(func() { close(l.stop) })
	return l.Listener.Close()
}

type guardedConn struct {
	net.Conn
	slots  chan struct{}
	once   sync.Once
	expiry *time.Timer
	unix   bool
	cred   ucred
	err    error // why cred is unknown
}

func (c *guardedConn) Close() error {
	c.once.Do(func() { <-c.slots })
	if c.expiry != nil {
		c.expiry.Stop()
	}
	return c.Conn.Close()
}

// handshake is the server's side of every connection: nothing on a unix socket,
// where the kernel has already said who it is, and mutual TLS otherwise.
type handshake struct{ server *Server }

func (h *handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if g, ok := raw.(*guardedConn); ok {
		if g.err != nil {
			return nil, nil, fmt.Errorf("asking who is at the other end: %w", g.err)
		}
		if g.unix {
			// What passes through the kernel is as private as TLS would make it.
			return raw, unixPeer{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, g.cred}, nil
		}
	}
	c := h.server.config.Load().TLS
	if c == nil {
		return nil, nil, errors.New("there is no TLS for TCP connections")
	}
	return credentials.NewTLS(c).ServerHandshake(raw)
}

func (h *handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the credentials of a server")
}

func (h *handshake) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "ddns-hooks"}
}

func (h *handshake) Clone() credentials.TransportCredentials { return &handshake{h.server} }

func (h *handshake) OverrideServerName(string) error { return nil }

// allowed reports whether a user may call.
func (s *Server) allowed(uid uint32) bool {
	return uid == 0 || uid == ownUID() || slices.Contains(s.config.Load().AllowUIDs, uid)
}

// admit refuses a call whose caller is not known and allowed. It is asked for each
// call, not each connection, so that a new configuration holds at once.
func (s *Server) admit(ctx context.Context) error {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return status.Error(codes.PermissionDenied, "the caller is unknown")
	}
	switch a := p.AuthInfo.(type) {
	case unixPeer:
		if !s.allowed(a.uid) {
			return status.Errorf(codes.PermissionDenied, "uid %d may not call this server", a.uid)
		}
		return nil
	case credentials.TLSInfo:
		if len(a.State.VerifiedChains) > 0 && a.State.Version >= tls.VersionTLS13 {
			return nil
		}
	}
	return status.Error(codes.PermissionDenied, "the caller has no verified certificate")
}

// describePeer names the caller for the log.
func describePeer(ctx context.Context) string {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return "unknown"
	}
	switch a := p.AuthInfo.(type) {
	case unixPeer:
		return fmt.Sprintf("uid:%d/pid:%d", a.uid, a.pid)
	case credentials.TLSInfo:
		if len(a.State.PeerCertificates) > 0 {
			return fmt.Sprintf("%s/%q", p.Addr, a.State.PeerCertificates[0].Subject.String())
		}
	}
	return p.Addr.String()
}

package hooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/coredns-ddns/ddns/internal/accept"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// ServerConfig is what may change while a Server keeps its sockets open. It is
// immutable once given.
type ServerConfig struct {
	Executor Executor // runs what is asked for

	// AllowUIDs are the users that may connect over a unix socket, besides root and
	// the user of this process.
	AllowUIDs []uint32
	// TLS is for TCP, from ServerTLS; nil when there is no TCP listener.
	TLS *tls.Config
	// Reflection lets a caller ask which methods there are.
	Reflection bool
	// Log gets a line per call; may be nil.
	Log func(line string)
	// Warn gets what is wrong with the server itself; may be nil.
	Warn func(line string)
}

// A Server offers an Executor over gRPC. Its sockets outlive configurations:
// Configure swaps everything behind them, and no connection is refused meanwhile.
type Server struct {
	config atomic.Pointer[ServerConfig]
	grpc   *grpc.Server
	health *health.Server
	slots  chan struct{} // a token per connection, of all listeners

	mu      sync.Mutex
	stopped bool // guarded by mu
}

// NewServer returns a Server that serves nothing yet.
func NewServer(c ServerConfig) (*Server, error) {
	s := &Server{health: health.NewServer(), slots: make(chan struct{}, maxConnections)}
	if err := s.Configure(c); err != nil {
		return nil, err
	}
	s.grpc = grpc.NewServer(s.options()...)
	hooksv1.RegisterHookServiceServer(s.grpc, &service{server: s})
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s, nil
}

// Configure replaces the configuration, or returns an error and keeps the old one.
// Calls that have begun end under the old one; connections stay, and each of their
// next calls is judged by the new one.
func (s *Server) Configure(c ServerConfig) error {
	if c.Executor == nil {
		return errors.New("the hook server has nothing to run hooks with")
	}
	if c.TLS != nil {
		if err := checkServerTLS(c.TLS); err != nil {
			return err
		}
	}
	if old := s.config.Load(); old != nil && old.TLS != nil && c.TLS == nil {
		return errors.New("the hook server has served TCP: it cannot go on without mutual TLS")
	}
	c.AllowUIDs = slices.Clone(c.AllowUIDs)
	s.config.Store(&c)
	s.tellHealth(c.Executor)
	return nil
}

// Serve accepts connections of l until Stop, and then returns nil. A listener that
// is not a unix socket is refused without mutual TLS.
func (s *Server) Serve(l net.Listener) error {
	if l.Addr().Network() != "unix" && s.config.Load().TLS == nil {
		l.Close()
		return fmt.Errorf("serving hooks on %s: a TCP listener needs mutual TLS: a certificate, a key and the CA of its clients", l.Addr())
	}
	patient := accept.Patiently(l, func(err error) {
		if warn := s.config.Load().Warn; warn != nil {
			warn(fmt.Sprintf("No connection can be accepted on %s for hooks, trying again: %v", l.Addr(), err))
		}
	})
	err := s.grpc.Serve(&guardedListener{Listener: patient, server: s, stop: make(chan struct{})})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("serving hooks on %s: %w", l.Addr(), err)
}

// Stop refuses new calls and waits for those that run. When ctx ends first they are
// cancelled, and Stop returns when everything they had started is gone.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.health.Shutdown()
	done := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}

// Health service names. The first two are SERVING while hooks can be run; the
// others say which promises are kept: see Guarantees.
const (
	healthAll       = ""
	healthHooks     = "hooks.v1.HookService"
	healthTree      = healthHooks + "/tree"
	healthUsers     = healthHooks + "/users"
	healthIsolation = healthHooks + "/isolation"
	healthUmask     = healthHooks + "/umask"
)

// RefreshHealth asks the Executor again what it can promise; for after it was
// configured itself.
func (s *Server) RefreshHealth() { s.tellHealth(s.config.Load().Executor) }

// tellHealth maps the promises that are kept to the health service, which has no
// room for their sentences.
func (s *Server) tellHealth(e Executor) {
	var g Guarantees
	if l, ok := e.(interface{ Guarantees() Guarantees }); ok {
		g = l.Guarantees()
	}
	for name, missing := range map[string]string{
		healthAll: g.Run, healthHooks: g.Run, healthTree: g.Tree, healthUsers: g.Users,
		healthIsolation: g.Isolation, healthUmask: g.Umask,
	} {
		st := healthv1.HealthCheckResponse_SERVING
		if missing != "" {
			st = healthv1.HealthCheckResponse_NOT_SERVING
		}
		s.health.SetServingStatus(name, st)
	}
}

// service is hooks.v1.HookService; who calls has been decided before.
type service struct {
	hooksv1.UnimplementedHookServiceServer
	server *Server
}

func (s *service) ExecuteHook(ctx context.Context, r *hooksv1.ExecuteHookRequest) (*hooksv1.ExecuteHookResponse, error) {
	return s.server.config.Load().Executor.Execute(ctx, r.GetHook())
}

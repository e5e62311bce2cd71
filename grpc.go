package ddns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/resident"
)

// hookServers are the hook servers of the process by address.
var hookServers resident.Table[string, *hookServer]

// hookServerGrace is how long calls that run may take to end when the server is
// closed.
const hookServerGrace = 5 * time.Second

// hookServer is hooks.v1.HookService on one address. It outlives reloads; what it
// runs is what the oldest stanza that is still there defines, so that a reload that
// fails has changed nothing.
type hookServer struct {
	server *hooks.Server
	local  *hooks.Local

	mu      sync.Mutex
	members []*hookServerMember // guarded by mu; in order of start
}

type hookServerMember struct {
	instance *instance
	tls      *tls.Config
}

// startGRPC serves the stanza's hooks to others, if its Corefile says so.
func (i *instance) startGRPC(l *loaded) error {
	address := i.cfg.grpc.address
	if address == "" {
		return nil
	}
	lease, err := hookServers.Acquire(i.generation, address, func() (*hookServer, func() error, error) {
		return openHookServer(i, l.grpcTLS)
	})
	if err != nil {
		return err
	}
	i.grpc = lease
	s := lease.Value()
	if err := i.generation.OnDrop(func() error { return s.forget(i) }); err != nil {
		return err
	}
	return s.join(i, l.grpcTLS)
}

func openHookServer(i *instance, t *tls.Config) (*hookServer, func() error, error) {
	address := i.cfg.grpc.address
	var socket net.Listener
	var err error
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		socket, err = hooks.ListenUnix(path, hooks.UnixOptions{})
	} else {
		socket, err = net.Listen("tcp", address)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("listening on %s for hooks: %w", address, err)
	}
	s := &hookServer{local: hooks.NewLocal(hooks.LocalConfig{Runner: runner(), Policy: i})}
	s.server, err = hooks.NewServer(s.config(i, t))
	if err != nil {
		return nil, nil, errors.Join(err, socket.Close())
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := s.server.Serve(socket); err != nil {
			log.Errorf("The hook server ended: %v", err)
		}
	}()
	return s, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), hookServerGrace)
		defer cancel()
		s.server.Stop(ctx)
		<-served
		return nil
	}, nil
}

func (s *hookServer) config(i *instance, t *tls.Config) hooks.ServerConfig {
	return hooks.ServerConfig{
		Executor: s.local, TLS: t, Reflection: i.cfg.grpc.reflection,
		Log:  func(line string) { log.Infof("Hook call %s", line) },
		Warn: func(line string) { log.Error(line) },
	}
}

// join adds a stanza. Two of one configuration cannot share an address: a
// hook's name would not say whose it is.
func (s *hookServer) join(i *instance, t *tls.Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.instance.generation == i.generation && m.instance != i {
			return fmt.Errorf("grpc address %s is given by two stanzas: each needs one of its own", i.cfg.grpc.address)
		}
	}
	s.members = append(s.members, &hookServerMember{i, t})
	return s.configure()
}

func (s *hookServer) forget(i *instance) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(m *hookServerMember) bool { return m.instance == i })
	return s.configure()
}

// configure has the oldest member decide; the last one out leaves things as they
// are, also for a /reload that is still under way then. mu is held.
func (s *hookServer) configure() error {
	if len(s.members) == 0 {
		return nil
	}
	m := s.members[0]
	s.local.Configure(hooks.LocalConfig{Runner: runner(), Policy: m.instance})
	return s.server.Configure(s.config(m.instance, m.tls))
}

// configureGRPC takes certificates that were read anew, and reports whether they
// differ. The policy is looked at with each call.
func (i *instance) configureGRPC(l *loaded) (changed bool) {
	if i.grpc == nil {
		return false
	}
	s := i.grpc.Value()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.instance == i {
			changed = !sameCertificate(m.tls, l.grpcTLS)
			m.tls = l.grpcTLS
		}
	}
	if err := s.configure(); err != nil {
		log.Errorf("The hook server keeps its old certificate: %v", err)
	}
	return changed
}

func (i *instance) stopGRPC() error {
	if i.grpc == nil {
		return nil
	}
	return errors.Join(i.grpc.Value().forget(i), i.grpc.Release())
}

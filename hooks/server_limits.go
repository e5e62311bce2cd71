package hooks

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// The limits of a Server: a hook is small, and its callers are few.
const (
	maxConnections = 64
	maxStreams     = 32
	maxRequest     = MaxEnvTotal + MaxArgBytes + 32<<10 // what checkEnv and checkCommand take, and its framing
	maxResponse    = 256 << 10                          // 64 KiB of output, each octet of which may be replaced by three
	maxHeaders     = 8 << 10
	handshakeTime  = 5 * time.Second
)

func (s *Server) options() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(&handshake{server: s}),
		grpc.ConnectionTimeout(handshakeTime),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.MaxSendMsgSize(maxResponse),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 30 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 10 * time.Minute, Time: time.Minute, Timeout: 10 * time.Second,
		}),
		// Stop returns only when the handlers have, and with them what they run.
		grpc.WaitForHandlers(true),
		grpc.ChainUnaryInterceptor(s.logCall, recoverUnary, s.admitUnary),
		grpc.ChainStreamInterceptor(recoverStream, s.admitStream),
	}
}

func (s *Server) admitUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	return next(ctx, req)
}

func (s *Server) admitStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := s.admit(ss.Context()); err != nil {
		return err
	}
	if strings.HasPrefix(info.FullMethod, "/grpc.reflection.") && !s.config.Load().Reflection {
		return status.Error(codes.Unimplemented, "this server has reflection switched off")
	}
	return next(srv, ss)
}

// A panic is a bug of ours in one call; the hooks of all others go on.
func recoverUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = status.Errorf(codes.Internal, "%s panicked: %v\n%s", info.FullMethod, v, debug.Stack())
		}
	}()
	return next(ctx, req)
}

func recoverStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = status.Errorf(codes.Internal, "%s panicked: %v\n%s", info.FullMethod, v, debug.Stack())
		}
	}()
	return next(srv, ss)
}

// logCall writes who asked for what and what became of it; of the environment only
// the event's id and name, which are no secret.
func (s *Server) logCall(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	began := time.Now()
	resp, err := next(ctx, req)
	log := s.config.Load().Log
	r, ok := req.(*hooksv1.ExecuteHookRequest)
	if log == nil || !ok {
		return resp, err
	}
	result, text := "ok", ""
	if err != nil {
		result, text = status.Code(err).String(), status.Convert(err).Message()
	} else if e, ok := resp.(*hooksv1.ExecuteHookResponse); ok && e.GetError() != "" {
		result, text = "failed", e.GetError()
	}
	h := r.GetHook()
	line := fmt.Sprintf("hook=%.80q name=%.256q event=%.80q peer=%s result=%s seconds=%.3f",
		h.GetName(), h.GetEnv()["DDNS_FQDN"], h.GetEnv()["DDNS_EVENT_ID"], describePeer(ctx), result, time.Since(began).Seconds())
	if text != "" {
		line += fmt.Sprintf(" error=%q", lastLine(text, 600))
	}
	log(line)
	return resp, err
}

package hooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// DialOptions say whom a Client trusts.
type DialOptions struct {
	// TLS is for host:port, from ClientTLS.
	TLS *tls.Config
	// ServerUIDs are the users that may serve a unix socket, besides root and the
	// user of this process: an event must not be told to who merely was first to
	// make the socket.
	ServerUIDs []uint32
}

// Remote is the Executor that asks another process: ddns-hookd, or another
// implementation of hooks.v1. It may be used by many goroutines at once.
type Remote struct {
	target string
	conn   *grpc.ClientConn
	client hooksv1.HookServiceClient
}

// replyTime is what a call may take beyond the time limit of its hook: a place to
// run, the grace after TERM and the end of what was killed.
const replyTime = 45 * time.Second

// Dial returns an Executor for unix:///path or host:port. It does not connect: a
// server that is not there makes Execute return Unavailable.
func Dial(target string, o DialOptions) (*Remote, error) {
	opts := []grpc.DialOption{
		grpc.WithUserAgent("ddns-hooks"),
		// A server that was restarted is found again within seconds.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           grpcbackoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse), grpc.MaxCallSendMsgSize(maxRequest)),
		grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(),
	}
	if path, ok := strings.CutPrefix(target, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("the hook server %s: write unix:///path with an absolute path", target)
		}
		opts = append(opts, grpc.WithTransportCredentials(&unixClient{uids: o.ServerUIDs}))
	} else {
		if _, _, err := net.SplitHostPort(target); err != nil {
			return nil, fmt.Errorf("the hook server %s: write unix:///path or host:port: %w", target, err)
		}
		if o.TLS == nil || len(o.TLS.Certificates) == 0 && o.TLS.GetClientCertificate == nil {
			return nil, fmt.Errorf("the hook server %s: TCP needs mutual TLS", target)
		}
		opts = append(opts, grpc.WithTransportCredentials(credentials.NewTLS(o.TLS)))
	}
	conn, err := grpc.NewClient(target, opts...)
	if err != nil {
		return nil, fmt.Errorf("the hook server %s: %w", target, err)
	}
	return &Remote{target: target, conn: conn, client: hooksv1.NewHookServiceClient(conn)}, nil
}

// Execute implements Executor. Without a deadline in ctx it sets one that a server
// which keeps its limits cannot miss.
func (r *Remote) Execute(ctx context.Context, hook *hooksv1.Hook) (*hooksv1.ExecuteHookResponse, error) {
	if _, ok := ctx.Deadline(); !ok {
		limit := time.Duration(hook.GetTimeoutSeconds()) * time.Second
		if limit <= 0 || limit > time.Hour {
			limit = time.Hour // the server's definition decides; none is longer
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit+replyTime)
		defer cancel()
	}
	return r.client.ExecuteHook(ctx, &hooksv1.ExecuteHookRequest{Hook: hook})
}

// Check asks the server whether it can run hooks.
func (r *Remote) Check(ctx context.Context) error {
	resp, err := healthv1.NewHealthClient(r.conn).Check(ctx, &healthv1.HealthCheckRequest{Service: healthHooks})
	if err != nil {
		return fmt.Errorf("asking the hook server %s: %w", r.target, err)
	}
	if resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("the hook server %s is %s", r.target, resp.GetStatus())
	}
	return nil
}

// Close ends the connection; calls that run end with it.
func (r *Remote) Close() error { return r.conn.Close() }

// unixClient is the client's side of a unix socket: it looks who serves it.
type unixClient struct{ uids []uint32 }

func (u *unixClient) ClientHandshake(_ context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cred, err := peerCredentials(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("asking who serves the socket: %w", err)
	}
	if cred.uid != 0 && cred.uid != ownUID() && !slices.Contains(u.uids, cred.uid) {
		return nil, nil, fmt.Errorf("the socket is served by uid %d, which is neither root nor this process's user", cred.uid)
	}
	return raw, unixPeer{credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}, cred}, nil
}

func (u *unixClient) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("the credentials of a client")
}

func (u *unixClient) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "unix"}
}

func (u *unixClient) Clone() credentials.TransportCredentials { return &unixClient{u.uids} }

func (u *unixClient) OverrideServerName(string) error { return nil }

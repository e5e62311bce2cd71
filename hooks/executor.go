package hooks

import (
	"context"

	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// An Executor runs one hook to its end.
//
// A nil error means that the hook was accepted; what became of it is in the
// response, whose Error is empty only for success, and no process of it is left.
// Otherwise the error carries a gRPC status (status.FromError), also when no
// socket is between: InvalidArgument, PermissionDenied and NotFound
// mean that the same call fails again; Unavailable,
// ResourceExhausted, DeadlineExceeded, Aborted and Canceled mean that another may
// succeed. After Unavailable, DeadlineExceeded, Canceled or Unknown from a remote
// Executor the hook may have run.
type Executor interface {
	Execute(ctx context.Context, hook *hooksv1.Hook) (*hooksv1.ExecuteHookResponse, error)
}

package hooks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/internal/policy"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// Definitions finds the definition of a hook; *policy.Policy is one.
type Definitions interface {
	Hook(name string) (*policy.Hook, bool)
}

// LocalConfig is what a Local runs, and with what. It is immutable once given.
type LocalConfig struct {
	Runner *Runner
	Policy Definitions
	// Any runs what a request says when no definition has its name. AnyRoot lets
	// such a request name root too.
	Any, AnyRoot bool
	// AnyTimeout bounds what such a request may take; 5 min when 0.
	AnyTimeout time.Duration
}

// Local is the Executor that runs hooks in this process, by its own policy. The
// Server is the same behind a socket. It may be used by many goroutines at once.
type Local struct {
	config atomic.Pointer[LocalConfig]
	lanes  lanes
}

// NewLocal returns a Local. Without a Runner it answers Unavailable until
// Configure gives it one.
func NewLocal(c LocalConfig) *Local {
	l := &Local{}
	l.Configure(c)
	return l
}

// Configure replaces the configuration. Runs that have begun end under the old one.
func (l *Local) Configure(c LocalConfig) {
	if c.AnyTimeout <= 0 {
		c.AnyTimeout = 5 * time.Minute
	}
	l.config.Store(&c)
}

// Guarantees returns what the Runner can promise.
func (l *Local) Guarantees() Guarantees {
	if r := l.config.Load().Runner; r != nil {
		return r.Guarantees()
	}
	return Guarantees{Run: "there is no runner yet"}
}

// Execute implements Executor. Two calls for the same hook and name (DDNS_FQDN)
// never run at once: the later one waits.
func (l *Local) Execute(ctx context.Context, hook *hooksv1.Hook) (*hooksv1.ExecuteHookResponse, error) {
	if err := checkRequest(hook); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	c := l.config.Load()
	if c.Runner == nil {
		return nil, status.Error(codes.Unavailable, "hooks cannot be run yet")
	}
	spec, err := c.spec(hook)
	if err != nil {
		return nil, err
	}
	leave, err := l.lanes.enter(ctx, hook.GetName()+"\x00"+hook.GetEnv()["DDNS_FQDN"])
	if err != nil {
		return nil, status.FromContextError(err).Err()
	}
	defer leave()
	out := c.Runner.Run(ctx, spec)
	return answer(ctx, &out)
}

// answer keeps the two kinds of failure apart.
func answer(ctx context.Context, out *Outcome) (*hooksv1.ExecuteHookResponse, error) {
	if !out.Started {
		switch {
		case errors.Is(out.Err, errInvalid):
			return nil, status.Error(codes.InvalidArgument, out.Err.Error())
		case errors.Is(out.Err, ErrIdentity):
			return nil, status.Error(codes.PermissionDenied, out.Err.Error())
		case errors.Is(out.Err, ErrBusy):
			return nil, status.Error(codes.ResourceExhausted, out.Err.Error())
		case errors.Is(out.Err, ErrClosed):
			return nil, status.Error(codes.Unavailable, out.Err.Error())
		}
	}
	if err := ctx.Err(); err != nil && (out.Canceled || !out.Started) {
		return nil, status.FromContextError(err).Err()
	}
	if out.Canceled {
		return nil, status.Error(codes.Unavailable, "the hook was ended because this server is stopping")
	}
	return out.Response(), nil
}

// checkRequest returns an error for a request that no policy could accept.
func checkRequest(h *hooksv1.Hook) error {
	switch {
	case h == nil:
		return fmt.Errorf("%w: the request has no hook", errInvalid)
	case !validHookName(h.GetName()):
		return fmt.Errorf("%w: the name %.80q is not 1 to 64 letters, digits, '-', '_' and '.'", errInvalid, h.GetName())
	case h.GetTimeoutSeconds() < 0:
		return fmt.Errorf("%w: timeout_seconds is %d", errInvalid, h.GetTimeoutSeconds())
	}
	if name, ok := h.GetEnv()["DDNS_HOOK"]; ok && name != h.GetName() {
		return fmt.Errorf("%w: DDNS_HOOK is %.80q in a request for %q", errInvalid, name, h.GetName())
	}
	s := Spec{Command: h.GetCommand(), User: h.GetUser(), Group: h.GetGroup(), Cwd: h.GetCwd(), Env: h.GetEnv()}
	if len(s.Command) == 0 {
		s.Command = []string{"/absent"}
	}
	return s.check()
}

// spec decides what the request runs. The error is a gRPC status.
func (c *LocalConfig) spec(h *hooksv1.Hook) (Spec, error) {
	var def *policy.Hook
	if c.Policy != nil {
		def, _ = c.Policy.Hook(h.GetName())
	}
	var s Spec
	switch {
	case def != nil:
		if err := same(h, def); err != nil {
			return s, status.Error(codes.PermissionDenied, err.Error())
		}
		s = Definition(def)
	case !c.Any:
		return s, status.Errorf(codes.NotFound, "no hook %q is defined here", h.GetName())
	case len(h.GetCommand()) == 0:
		return s, status.Errorf(codes.NotFound, "no hook %q is defined here, and the request has no command", h.GetName())
	case h.GetUser() == "":
		return s, status.Error(codes.InvalidArgument, "invalid hook: a request with a command needs a user")
	default:
		s = Spec{Command: h.GetCommand(), User: h.GetUser(), Group: h.GetGroup(), Root: c.AnyRoot, Cwd: h.GetCwd(), Timeout: c.AnyTimeout}
	}
	s.Hook = h.GetName()
	if s.Env == nil {
		s.Env = make(map[string]string)
	}
	s.Env["DDNS_HOOK"] = h.GetName()
	if asked := time.Duration(h.GetTimeoutSeconds()) * time.Second; asked > 0 {
		s.Timeout = min(asked, c.ceiling(s.Timeout))
	}
	for name, value := range h.GetEnv() {
		s.Env[name] = value
	}
	return s, nil
}

// Definition is what a definition runs when the request adds nothing.
func Definition(def *policy.Hook) Spec {
	return Spec{
		Hook: def.Name, Command: def.Command, User: def.User, Group: def.Group, Root: def.Root,
		Cwd: def.Cwd, Timeout: def.Timeout, Env: maps.Clone(def.Env),
	}
}

// ceiling is the longest that a request may ask for: the limit of the definition, or
// the default, which a definition without one has chosen.
func (c *LocalConfig) ceiling(defined time.Duration) time.Duration {
	if defined > 0 {
		return defined
	}
	return c.Runner.opts.DefaultTimeout
}

// same returns an error unless the request asks for nothing that the definition
// does not say.
func same(h *hooksv1.Hook, def *policy.Hook) error {
	if len(h.GetCommand()) > 0 && !slices.Equal(h.GetCommand(), def.Command) {
		return fmt.Errorf("the command of the request is not that of the hook %q", def.Name)
	}
	for _, f := range []struct{ what, asked, defined string }{
		{"user", h.GetUser(), def.User}, {"group", h.GetGroup(), def.Group}, {"cwd", h.GetCwd(), def.Cwd},
	} {
		if f.asked != "" && f.asked != f.defined {
			return fmt.Errorf("the %s of the request is not that of the hook %q", f.what, def.Name)
		}
	}
	for name, value := range h.GetEnv() {
		if eventVariable(name) || def.AllowsEnv(name) {
			continue
		}
		if defined, ok := def.Env[name]; !ok || value != defined {
			return fmt.Errorf("the hook %q does not allow a request to set %s", def.Name, name)
		}
	}
	return nil
}

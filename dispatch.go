package ddns

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/zone"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// dispatcherGrace is how long running hooks may take to end when the process
// does; then they are ended, and run again after the next start.
const dispatcherGrace = 5 * time.Second

// runner runs the hooks of all stanzas that run their own.
var runner = sync.OnceValue(func() *hooks.Runner {
	r := hooks.NewRunner(hooks.RunnerOptions{Observer: hookMetrics{}})
	for _, sentence := range r.Guarantees().Missing() {
		log.Warningf("Running hooks: %s", sentence)
	}
	return r
})

// dispatchers are the hook dispatchers of the process, one a database, by its key.
var dispatchers resident.Table[string, *dispatching]

// dispatching is the dispatcher of one database with the stanzas that tell it
// what to run. A stanza is heard until it stops; where two define the same hook,
// which is so while a reload is under way, the older one's definition stands, so that
// a reload which fails has changed nothing.
type dispatching struct {
	dispatcher *hooks.Dispatcher

	mu      sync.Mutex
	members []*dispatchMember // guarded by mu; oldest generation first
}

type dispatchMember struct {
	instance *instance
	hooks    []*policy.Hook
}

// startHooks joins the database's dispatcher when there are hooks, or were: what a
// hook that is gone has still to be told is then dropped, with a word in the log.
func (i *instance) startHooks(l *loaded) error {
	if err := i.startExecutor(); err != nil {
		return err
	}
	cursors, err := i.db().Cursors(hooks.Follower)
	if err != nil {
		return fmt.Errorf("reading where hooks are: %w", err)
	}
	if len(l.policy.Hooks()) == 0 && len(cursors) == 0 {
		return nil
	}
	i.warnOfHooks(l.policy)
	return i.joinDispatcher(l.policy)
}

func (i *instance) joinDispatcher(p *policy.Policy) error {
	lease, err := dispatchers.Acquire(i.generation, i.storeKey(), i.openDispatcher)
	if err != nil {
		return err
	}
	i.dispatcher.Store(lease)
	if err := i.generation.OnDrop(func() error { return lease.Value().forget(i) }); err != nil {
		return err
	}
	return lease.Value().define(i, i.scopedHooks(p))
}

// openDispatcher starts the dispatcher with the hooks of all stanzas of this load
// that share the database: it drops what waits for a hook that it is not told of.
func (i *instance) openDispatcher() (*dispatching, func() error, error) {
	g := &dispatching{}
	for _, j := range i.load.instances {
		if j.storeKey() != i.storeKey() || j.cfg.policy == "" {
			continue
		}
		p, err := policy.ParseFile(j.cfg.policy)
		if err != nil {
			return nil, nil, err
		}
		if defs := j.scopedHooks(p); len(defs) > 0 { // else it may never join, and so never leave
			g.members = append(g.members, &dispatchMember{j, defs})
		}
	}
	defs, route := g.union()
	g.dispatcher = hooks.NewDispatcher(hooks.DispatcherOptions{
		Journal: i.db(), Executor: route, Hooks: defs, Observer: hookMetrics{}, Log: logStore,
	})
	if err := g.dispatcher.Start(context.Background()); err != nil {
		return nil, nil, fmt.Errorf("starting hooks: %w", err)
	}
	watchHooks(g.dispatcher)
	return g, func() error {
		unwatchHooks(g.dispatcher)
		ctx, cancel := context.WithTimeout(context.Background(), dispatcherGrace)
		defer cancel()
		return g.dispatcher.Stop(ctx)
	}, nil
}

// startExecutor makes what runs the stanza's hooks.
func (i *instance) startExecutor() error {
	var e hooks.Executor
	if i.cfg.hooks == "local" {
		e = &lazyLocal{policy: i}
	} else {
		remote, err := hooks.Dial(i.cfg.hooks, hooks.DialOptions{})
		if err != nil {
			return err
		}
		e, i.closeExecutor = remote, remote.Close
		if err := i.generation.OnDrop(remote.Close); err != nil {
			return err
		}
	}
	i.executor.Store(&e)
	return nil
}

// Execute implements hooks.Executor for the hooks that the stanza defines.
func (i *instance) Execute(ctx context.Context, h *hooksv1.Hook) (*hooksv1.ExecuteHookResponse, error) {
	e := i.executor.Load()
	if e == nil || i.over.Load() {
		return nil, status.Error(codes.Unavailable, "the stanza that runs this hook is starting or stopping")
	}
	return (*e).Execute(ctx, h)
}

// Hook implements hooks.Definitions with the policy as it is now.
func (i *instance) Hook(name string) (*policy.Hook, bool) { return i.policy.Load().Hook(name) }

// lazyLocal makes the process's runner when the first hook runs: a server without
// hooks has no use for control groups.
type lazyLocal struct {
	policy hooks.Definitions
	once   sync.Once
	local  *hooks.Local
}

func (l *lazyLocal) Execute(ctx context.Context, h *hooksv1.Hook) (*hooksv1.ExecuteHookResponse, error) {
	l.once.Do(func() { l.local = hooks.NewLocal(hooks.LocalConfig{Runner: runner(), Policy: l.policy}) })
	return l.local.Execute(ctx, h)
}

// define sets what one stanza wants.
func (g *dispatching) define(i *instance, defs []*policy.Hook) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.conflict(i, defs); err != nil {
		return err
	}
	at := slices.IndexFunc(g.members, func(m *dispatchMember) bool { return m.instance == i })
	if at < 0 {
		g.members = append(g.members, nil)
		at = len(g.members) - 1
	}
	g.members[at] = &dispatchMember{i, defs}
	slices.SortStableFunc(g.members, func(a, b *dispatchMember) int {
		switch {
		case b.instance.generation.Newer(a.instance.generation):
			return -1
		case a.instance.generation.Newer(b.instance.generation):
			return 1
		}
		return 0
	})
	return g.configure()
}

// forget ends what one stanza wants.
func (g *dispatching) forget(i *instance) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.members)
	g.members = slices.DeleteFunc(g.members, func(m *dispatchMember) bool { return m.instance == i })
	if len(g.members) == n || len(g.members) == 0 {
		return nil // the last one out keeps the definitions
	}
	return g.configure()
}

// configure tells the dispatcher. mu is held.
func (g *dispatching) configure() error {
	defs, route := g.union()
	return g.dispatcher.Configure(context.Background(), defs, route)
}

// union is what all stanzas together want. mu is held.
func (g *dispatching) union() ([]*policy.Hook, router) {
	var defs []*policy.Hook
	route := make(router)
	by := make(map[string]*policy.Hook)
	for _, m := range g.members {
		for _, h := range m.hooks {
			have := by[h.Name]
			switch {
			case have == nil:
				c := *h
				by[h.Name], route[h.Name] = &c, m.instance
				defs = append(defs, &c)
			case route[h.Name].generation == m.instance.generation:
				have.Match = append(slices.Clip(have.Match), h.Match...) // another stanza's zones
			}
		}
	}
	return defs, route
}

// scopedHooks are the policy's hooks for the stanza's own zones: a database may
// hold zones of other stanzas too.
func (i *instance) scopedHooks(p *policy.Policy) []*policy.Hook {
	var scoped []*policy.Hook
	for _, h := range p.Hooks() {
		c := *h
		c.Match = scope(h.Match, i.cfg.zones)
		if len(c.Match) > 0 {
			scoped = append(scoped, &c)
		}
	}
	return scoped
}

// warnOfHooks tells of those that scopedHooks leaves out.
func (i *instance) warnOfHooks(p *policy.Policy) {
	for _, h := range p.Hooks() {
		if len(scope(h.Match, i.cfg.zones)) == 0 {
			log.Warningf("Hook %s matches no name in %v, it will not run", h.Name, names(i.cfg.zones))
		}
	}
}

// scope narrows patterns to zones; no pattern means every name.
func scope(patterns []policy.NamePattern, zones []zone.Name) []policy.NamePattern {
	var out []policy.NamePattern
	for _, z := range zones {
		if len(patterns) == 0 {
			out = append(out, policy.NamePattern{Name: z}, policy.NamePattern{Name: z, Below: true})
			continue
		}
		for _, p := range patterns {
			switch {
			case p.Name.Within(z):
				out = append(out, p)
			case p.Below && z.Below(p.Name):
				out = append(out, policy.NamePattern{Name: z}, policy.NamePattern{Name: z, Below: true})
			}
		}
	}
	return out
}

// conflict is the error of a hook that another stanza of the same configuration
// defines differently. Stanzas with one policy file cannot: it is read for one after
// the other, and what the other has is old. mu is held.
func (g *dispatching) conflict(i *instance, defs []*policy.Hook) error {
	for _, m := range g.members {
		if m.instance.generation == i.generation && canonicalPath(m.instance.cfg.policy) != canonicalPath(i.cfg.policy) {
			if name := twoWays(m.hooks, defs); name != "" {
				return fmt.Errorf("hook %s is defined in two ways by stanzas that share the store %s: give one of them another name", name, i.storeKey())
			}
		}
	}
	return nil
}

// twoWays names a hook that two stanzas of one configuration define differently.
func twoWays(a, b []*policy.Hook) string {
	for _, x := range a {
		for _, y := range b {
			if x.Name != y.Name {
				continue
			}
			p, q := *x, *y
			p.Match, q.Match, p.Line, q.Line = nil, nil, 0, 0
			if !reflect.DeepEqual(p, q) {
				return x.Name
			}
		}
	}
	return ""
}

// checkHooks reports what redefineHooks would refuse.
func (i *instance) checkHooks(p *policy.Policy) error {
	lease := i.dispatcher.Load()
	if lease == nil {
		return nil
	}
	g := lease.Value()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conflict(i, i.scopedHooks(p))
}

// redefineHooks has the dispatcher take a policy that was read anew.
func (i *instance) redefineHooks(p *policy.Policy) error {
	lease := i.dispatcher.Load()
	if lease == nil {
		if len(p.Hooks()) == 0 {
			return nil
		}
		return i.joinDispatcher(p)
	}
	return lease.Value().define(i, i.scopedHooks(p))
}

// stopHooks ends the stanza's part in the dispatcher, before its store is released.
// Unless another configuration took its place its hooks stay defined, whichever
// stanza ends first: what waits for a hook that is forgotten is dropped, and these
// are told after the next start.
func (i *instance) stopHooks(replaced bool) error {
	var errs []error
	if lease := i.dispatcher.Load(); lease != nil {
		if replaced {
			errs = append(errs, lease.Value().forget(i))
		}
		errs = append(errs, lease.Release())
	}
	if i.closeExecutor != nil {
		errs = append(errs, i.closeExecutor())
	}
	return errors.Join(errs...)
}

// currentDispatcher is for the operator's listing; nil without hooks.
func (i *instance) currentDispatcher() *hooks.Dispatcher {
	if lease := i.dispatcher.Load(); lease != nil {
		return lease.Value().dispatcher
	}
	return nil
}

// router sends each hook to the stanza that defines it.
type router map[string]*instance

func (r router) Execute(ctx context.Context, h *hooksv1.Hook) (*hooksv1.ExecuteHookResponse, error) {
	i := r[h.GetName()]
	if i == nil {
		return nil, status.Errorf(codes.Unavailable, "no stanza runs the hook %q now", h.GetName())
	}
	return i.Execute(ctx, h)
}

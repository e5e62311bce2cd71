package resident

import (
	"errors"
	"slices"
	"sync"
)

// ErrDropped is returned by Acquire for a generation that was rolled back.
var ErrDropped = errors.New("this configuration was rolled back")

// loads is what the process knows of its generations.
var loads struct {
	mu         sync.Mutex
	last       uint64
	restarting *Generation // the one that a load in progress would replace
}

// Generation is one load of the configuration. The zero value is not one; use
// NewGeneration.
type Generation struct {
	number  uint64 // immutable; later loads have larger numbers
	lineage uint64 // immutable; the number of the first of a chain of reloads

	// guarded by loads.mu
	children  []*Generation // made while this one was restarting
	replacing bool          // a reload that would replace this one is under way
	replaced  bool          // and it succeeded
	dropped   bool
	undo      []func() error
}

// NewGeneration begins a load of the configuration. While another generation is
// restarting it is that one's successor, and goes when the restart fails.
func NewGeneration() *Generation {
	loads.mu.Lock()
	defer loads.mu.Unlock()
	loads.last++
	g := &Generation{number: loads.last, lineage: loads.last}
	if p := loads.restarting; p != nil {
		g.lineage = p.lineage
		p.children = append(p.children, g)
	}
	return g
}

// OnDrop has f run if the generation is rolled back: last in, first run. It is
// run at once when that happened already. f must be safe to call after the thing
// it undoes was released the ordinary way.
func (g *Generation) OnDrop(f func() error) error {
	loads.mu.Lock()
	if !g.dropped {
		g.undo = append(g.undo, f)
		loads.mu.Unlock()
		return nil
	}
	loads.mu.Unlock()
	return f()
}

// Drop rolls the generation back: whatever was acquired with it is released, and
// nothing can be acquired with it any more.
func (g *Generation) Drop() error {
	loads.mu.Lock()
	g.dropped = true
	undo := g.undo
	g.undo = nil
	loads.mu.Unlock()
	var errs []error
	for _, f := range slices.Backward(undo) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// Dropped reports whether the generation was rolled back.
func (g *Generation) Dropped() bool {
	loads.mu.Lock()
	defer loads.mu.Unlock()
	return g.dropped
}

// Restart says that a load which would replace g is about to begin.
func (g *Generation) Restart() {
	loads.mu.Lock()
	defer loads.mu.Unlock()
	if g.replacing {
		return // another stanza of g said so
	}
	g.replacing = true
	loads.restarting = g
}

// RestartFailed says that the load did not come to be: every generation begun
// since Restart is dropped, and g is the current one as before.
func (g *Generation) RestartFailed() error {
	loads.mu.Lock()
	children := g.children
	g.children, g.replacing = nil, false
	if loads.restarting == g {
		loads.restarting = nil
	}
	loads.mu.Unlock()
	var errs []error
	for _, c := range slices.Backward(children) {
		errs = append(errs, c.Drop())
	}
	return errors.Join(errs...)
}

// Shutdown says that g is over. It reports whether a newer configuration took
// its place; otherwise the process is about to end.
func (g *Generation) Shutdown() (replaced bool) {
	loads.mu.Lock()
	defer loads.mu.Unlock()
	if g.replacing {
		g.replaced = true
	}
	if loads.restarting == g {
		loads.restarting = nil
	}
	g.replacing, g.children, g.undo = false, nil, nil
	return g.replaced
}

// Replaced reports whether g's shutdown is that of a reload: a newer
// configuration is being put, or was put, in its place.
func (g *Generation) Replaced() bool {
	loads.mu.Lock()
	defer loads.mu.Unlock()
	return g.replacing || g.replaced
}

// Newer reports whether g was loaded after h.
func (g *Generation) Newer(h *Generation) bool { return g.number > h.number }

// Successor reports whether g was loaded to take the place of a running
// configuration, by a reload that may yet fail.
func (g *Generation) Successor() bool { return g.lineage != g.number }

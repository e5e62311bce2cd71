package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"syscall"
	"time"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Step is a kind of call that Faulty can make fail, hang or take long.
type Step string

// Steps, one per method that reads or writes the medium.
const (
	Zones     Step = "Zones"
	Load      Step = "Load"
	Commit    Step = "Commit"
	Journal   Step = "Journal"
	Cursors   Step = "Cursors"
	Followers Step = "Followers"
	Items     Step = "Items"
	Advance   Step = "Advance"
	Forget    Step = "Forget"
	Remove    Step = "Remove"
	Backup    Step = "Backup"
)

// Steps lists all of them, for matrices.
var Steps = []Step{Zones, Load, Commit, Journal, Cursors, Followers, Items, Advance, Forget, Remove, Backup}

// Writing lists those whose failure may leave something written.
var Writing = []Step{Commit, Advance, Forget, Remove}

// ErrInjected is wrapped by every error that Faulty makes up.
var ErrInjected = errors.New("injected fault")

// ErrFull is an injected full disk.
var ErrFull = fmt.Errorf("%w: %w: %w", ErrInjected, store.ErrNoSpace, syscall.ENOSPC)

// Fault is what happens to calls of one step. The zero Fault does nothing.
type Fault struct {
	// Err is returned; ErrInjected when nil and Times is not 0. A sequence yields it.
	Err error
	// Persisted lets the call do its work first, so that it has happened although
	// it is reported to have failed.
	Persisted bool
	// Times is how many calls fail; negative is every one. Later calls succeed.
	Times int
	// Skip is how many calls go well before the first that fails.
	Skip int
	// After is how many pairs a sequence yields before it fails.
	After int
	// Delay is slept before the call, failing or not.
	Delay time.Duration
	// Gate, when not nil, blocks every call of the step until it is closed or a
	// value is received from it; Entered is told first. Contexts are honoured as
	// the contract says: not by a writing call.
	Gate    <-chan struct{}
	Entered chan<- struct{}
}

// Faulty is a Store that fails as told; without faults it is the one it wraps.
type Faulty struct {
	inner store.Store

	mu     sync.Mutex
	faults map[Step]*Fault // guarded by mu
	calls  map[Step]int    // guarded by mu
}

var _ store.Store = (*Faulty)(nil)

// NewFaulty wraps a store.
func NewFaulty(s store.Store) *Faulty {
	return &Faulty{inner: s, faults: make(map[Step]*Fault), calls: make(map[Step]int)}
}

// Inject sets the fault of a step in place of the one it had.
func (f *Faulty) Inject(step Step, fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[step] = &fault
}

// Heal removes all faults. Calls that wait at a gate go on waiting.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.faults)
}

// Calls counts the calls of a step, failed ones too.
func (f *Faulty) Calls(step Step) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[step]
}

// Inner is the wrapped store, for looking behind the faults.
func (f *Faulty) Inner() store.Store { return f.inner }

// enter passes the gate and says what to do with this call: err is nil when it
// goes well.
func (f *Faulty) enter(step Step) (fault Fault, err error) {
	f.mu.Lock()
	f.calls[step]++
	p := f.faults[step]
	if p == nil {
		f.mu.Unlock()
		return Fault{}, nil
	}
	fault = *p
	switch {
	case p.Skip > 0:
		p.Skip--
	case p.Times != 0:
		if p.Times > 0 {
			p.Times--
		}
		if err = p.Err; err == nil {
			err = ErrInjected
		}
		err = fmt.Errorf("%s: %w", step, err)
	}
	f.mu.Unlock()

	if fault.Entered != nil {
		fault.Entered <- struct{}{}
	}
	if fault.Gate != nil {
		<-fault.Gate
	}
	if fault.Delay > 0 {
		time.Sleep(fault.Delay)
	}
	return fault, err
}

// write runs a writing call under the fault of its step.
func (f *Faulty) write(step Step, do func() error) error {
	fault, err := f.enter(step)
	if err == nil {
		return do()
	}
	if fault.Persisted {
		if real := do(); real != nil {
			return real
		}
	}
	return err
}

// Zones implements store.Store.
func (f *Faulty) Zones() ([]zone.Name, error) {
	if _, err := f.enter(Zones); err != nil {
		return nil, err
	}
	return f.inner.Zones()
}

// Load implements store.Store. A Persisted fault puts every node before it fails.
func (f *Faulty) Load(ctx context.Context, origin zone.Name, put func(zone.Name, zone.Node)) (store.State, bool, error) {
	fault, err := f.enter(Load)
	if err == nil {
		return f.inner.Load(ctx, origin, put)
	}
	if fault.Persisted {
		if _, _, real := f.inner.Load(ctx, origin, put); real != nil {
			return store.State{}, false, real
		}
	}
	return store.State{}, false, err
}

// Commit implements store.Store.
func (f *Faulty) Commit(ctx context.Context, zones []store.ZoneCommit) error {
	return f.write(Commit, func() error { return f.inner.Commit(ctx, zones) })
}

// Journal implements store.Store.
func (f *Faulty) Journal(ctx context.Context, origin zone.Name, after, upto store.Position) iter.Seq2[store.Entry, error] {
	return faultySeq(f, Journal, f.inner.Journal(ctx, origin, after, upto))
}

// Items implements store.Store.
func (f *Faulty) Items(follower, from string) iter.Seq2[store.Item, error] {
	return faultySeq(f, Items, f.inner.Items(follower, from))
}

func faultySeq[T any](f *Faulty, step Step, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		fault, err := f.enter(step)
		if err == nil {
			seq(yield)
			return
		}
		var none T
		if fault.After > 0 {
			n := 0
			for v, real := range seq {
				if !yield(v, real) || real != nil {
					return
				}
				if n++; n == fault.After {
					break
				}
			}
		}
		yield(none, err)
	}
}

// Cursors implements store.Store.
func (f *Faulty) Cursors(follower string) (map[zone.Name]store.Position, error) {
	if _, err := f.enter(Cursors); err != nil {
		return nil, err
	}
	return f.inner.Cursors(follower)
}

// Followers implements store.Store.
func (f *Faulty) Followers() ([]string, error) {
	if _, err := f.enter(Followers); err != nil {
		return nil, err
	}
	return f.inner.Followers()
}

// Advance implements store.Store.
func (f *Faulty) Advance(ctx context.Context, a store.Advance) error {
	return f.write(Advance, func() error { return f.inner.Advance(ctx, a) })
}

// Forget implements store.Store.
func (f *Faulty) Forget(ctx context.Context, follower string) error {
	return f.write(Forget, func() error { return f.inner.Forget(ctx, follower) })
}

// Remove implements store.Store.
func (f *Faulty) Remove(ctx context.Context, origin zone.Name) error {
	return f.write(Remove, func() error { return f.inner.Remove(ctx, origin) })
}

// Backup implements store.Store.
func (f *Faulty) Backup(ctx context.Context, w store.Writer) (int64, error) {
	if _, err := f.enter(Backup); err != nil {
		return 0, err
	}
	return f.inner.Backup(ctx, w)
}

// Stats implements store.Store; it has no faults.
func (f *Faulty) Stats() store.Stats { return f.inner.Stats() }

// Close implements store.Store; it has no faults.
func (f *Faulty) Close() error { return f.inner.Close() }

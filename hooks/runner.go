package hooks

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// RunnerOptions are the limits of a Runner; the zero value is a good one.
type RunnerOptions struct {
	DefaultTimeout time.Duration // for a Spec without one; 30 s
	MaxTimeout     time.Duration // no run is longer; 1 h
	Grace          time.Duration // between TERM and KILL; 5 s
	KillWait       time.Duration // how long to wait for the kernel to end what was killed; 10 s
	Parallel       int           // runs at once; 8
	Queue          time.Duration // how long to wait for one of those; 10 s
	Observer       RunObserver   // may be nil

	// ProcessGroups leaves control groups alone even where they work.
	ProcessGroups bool
}

// A RunObserver counts. Its methods are called once per run at most, after the
// run, and must not block.
type RunObserver interface {
	RunDone(hook, result string, d time.Duration) // result as Outcome.Result
	Killed(hook string)                           // something had to be killed
	OutputTruncated(hook string)                  // output was left out
}

// A Runner runs commands and leaves nothing of them behind. It may be used by many
// goroutines at once.
type Runner struct {
	opts  RunnerOptions // immutable after NewRunner
	slots chan struct{} // holds a token per run
	forge forge         // makes trees; immutable after NewRunner

	mu     sync.Mutex
	closed bool          // guarded by mu
	stop   chan struct{} // closed by Close
	runs   sync.WaitGroup
}

// NewRunner returns a Runner. It never fails: what the machine cannot do is in
// Guarantees, and a hook that needs it is refused when it is run.
func NewRunner(o RunnerOptions) *Runner {
	positive := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	positive(&o.DefaultTimeout, 30*time.Second)
	positive(&o.MaxTimeout, time.Hour)
	positive(&o.Grace, 5*time.Second)
	positive(&o.KillWait, 10*time.Second)
	positive(&o.Queue, 10*time.Second)
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	return &Runner{
		opts:  o,
		slots: make(chan struct{}, o.Parallel),
		forge: newForge(o.ProcessGroups),
		stop:  make(chan struct{}),
	}
}

// Run runs one command to its end and returns when everything that it started is
// gone, or could not be killed, which Outcome.Err then says. When ctx ends, or the
// Runner is closed, the command is ended like one that reached its time limit.
func (r *Runner) Run(ctx context.Context, s Spec) Outcome {
	done, err := r.admit(ctx)
	if err != nil {
		return notStarted(err)
	}
	out := r.run(ctx, s, done)
	if o := r.opts.Observer; o != nil {
		o.RunDone(s.Hook, out.Result(), out.Duration)
		if out.Killed {
			o.Killed(s.Hook)
		}
		if out.Missing > 0 {
			o.OutputTruncated(s.Hook)
		}
	}
	return out
}

// admit waits for one of the places. A nil error means that done must be called
// once, when nothing of the run is left.
func (r *Runner) admit(ctx context.Context) (done func(), err error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil, ErrClosed
	}
	r.runs.Add(1)
	r.mu.Unlock()

	t := time.NewTimer(r.opts.Queue)
	defer t.Stop()
	select {
	case r.slots <- struct{}{}:
		return func() { <-r.slots; r.runs.Done() }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-t.C:
		err = fmt.Errorf("%w: %d of %d", ErrBusy, cap(r.slots), cap(r.slots))
	case <-r.stop:
		err = ErrClosed
	}
	r.runs.Done()
	return nil, err
}

// limit is how long s may run.
func (r *Runner) limit(s *Spec) time.Duration {
	d := s.Timeout
	if d == 0 {
		d = r.opts.DefaultTimeout
	}
	return min(d, r.opts.MaxTimeout)
}

// Close refuses new runs, ends those that run, as at their time limit, and waits
// for them. It returns the error of ctx when that ends first.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stop)
	}
	r.mu.Unlock()
	idle := make(chan struct{})
	go func() { r.runs.Wait(); close(idle) }()
	select {
	case <-idle:
		r.forge.close()
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for hooks to end: %w", context.Cause(ctx))
	}
}

// Guarantees returns what the Runner can promise here.
func (r *Runner) Guarantees() Guarantees { return r.forge.guarantees() }

package hooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// drainWait is how long output is waited for when everything that could write it
// is gone: somebody may have passed the descriptor to a stranger. It is what
// WaitDelay is in os/exec, which is not used here because its Wait reaps the leader
// before the rest of the tree has been dealt with.
const drainWait = time.Second

// Allows returns the error that Run would start with, without running anything.
func (r *Runner) Allows(s Spec) error {
	_, err := r.prepare(s)
	return err
}

// prepare checks everything about s that can be checked before the start.
func (r *Runner) prepare(s Spec) (Identity, error) {
	if err := s.check(); err != nil {
		return Identity{}, err
	}
	id, err := identify(s.User, s.Group, s.Root)
	if err != nil {
		return id, err
	}
	if err := checkExecutable(s.Command[0], id.UID); err != nil {
		return id, err
	}
	return id, checkCwd(directory(s), id.UID)
}

func directory(s Spec) string {
	if s.Cwd == "" {
		return "/"
	}
	return s.Cwd
}

// run runs s and calls done when nothing of it is left.
func (r *Runner) run(ctx context.Context, s Spec, done func()) Outcome {
	id, err := r.prepare(s)
	if err != nil {
		done()
		return notStarted(err)
	}
	t, err := r.forge.plant(id)
	if err != nil {
		done()
		return notStarted(err)
	}
	out := &output{}
	p, pipe, err := start(s, id, t)
	if err != nil {
		t.close()
		done()
		return notStarted(startError(s, id, err))
	}
	began := time.Now()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		buf := make([]byte, 32<<10)
		for {
			n, err := pipe.Read(buf)
			out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()

	o := Outcome{Started: true, ExitCode: -1, Limit: r.limit(&s)}
	r.await(ctx, p, t, &o)
	killed, err := t.kill(time.Now().Add(r.opts.KillWait))
	o.Killed = killed
	finish := func() {
		p.release()
		t.close()
		done()
	}
	if err == nil {
		finish()
		switch {
		case p.waitErr != nil:
			o.Err = fmt.Errorf("reading how the command ended: %w", p.waitErr)
		default:
			o.ended(p.state)
		}
	} else {
		// The kernel does not let go of it. The place of this run stays taken until
		// it does, so that stuck processes cannot pile up.
		o.Err = err
		go func() {
			for err != nil {
				_, err = t.kill(time.Now().Add(time.Minute))
			}
			finish()
		}()
	}
	pipe.SetReadDeadline(time.Now().Add(drainWait))
	<-drained
	pipe.Close()
	o.Output, o.Missing, o.Duration = out.String(), out.missing(), time.Since(began)
	return o
}

// await returns when the command has ended by itself, or has been asked to end and
// had its grace.
func (r *Runner) await(ctx context.Context, p *process, t tree, o *Outcome) {
	limit := time.NewTimer(o.Limit)
	defer limit.Stop()
	select {
	case <-p.exited:
		return
	case <-limit.C:
		o.TimedOut = true
	case <-ctx.Done():
		// A deadline of the caller is a time limit like any other, but there is
		// nobody left to tell.
		o.Canceled = true
	case <-r.stop:
		o.Canceled = true
	}
	t.signal(syscall.SIGTERM)
	t.signal(syscall.SIGCONT) // a stopped process gets its TERM only now
	grace := time.NewTimer(r.opts.Grace)
	defer grace.Stop()
	select {
	case <-p.exited:
	case <-grace.C:
		return
	}
	// What it started may use the rest of the grace.
	for !t.empty() {
		select {
		case <-grace.C:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// start starts the command and returns the pipe of its output.
func start(s Spec, id Identity, t tree) (*process, *os.File, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	pipe, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	if !id.own {
		// So that the command can open /dev/stderr as well as write to it.
		if err := w.Chown(int(id.UID), int(id.GID)); err != nil && !errors.Is(err, syscall.EPERM) {
			pipe.Close()
			return nil, nil, err
		}
	}
	attr := &os.ProcAttr{
		Dir:   directory(s),
		Env:   environ(id, s.Env),
		Files: []*os.File{null, w, w},
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Credential: id.credential(),
			Pdeathsig:  syscall.SIGKILL,
		},
	}
	t.attach(attr.Sys)
	p, err := spawn(s.Command, attr, id.UID == 0)
	if err != nil {
		pipe.Close()
		return nil, nil, err
	}
	t.started(p)
	return p, pipe, nil
}

// startError says what the kernel refused in the words of the definition: fork and
// exec give one number for all that can go wrong between them.
func startError(s Spec, id Identity, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	switch {
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("starting %s in %s as %s: %w (the user must be able to reach and run it)", s.Command[0], directory(s), id.Name, err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("starting %s: %w (the interpreter of a script is missing too)", s.Command[0], err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%w %s: starting %s: %w", ErrIdentity, id.Name, s.Command[0], err)
	}
	return fmt.Errorf("starting %s as %s: %w", s.Command[0], id.Name, err)
}

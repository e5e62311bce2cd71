package hooks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/internal/zone"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// How often and after what pause a hook that failed is tried again.
const (
	maxFailures = 10
	retryFirst  = time.Second
	retryMost   = 5 * time.Minute
	// An executor that is away holds all events of a hook up, and to ask is cheap.
	awayMost = 30 * time.Second
)

// exitConfig, of sysexits.h, is the exit status that means "give up: it would fail
// again". Every other one but 0 is tried again, 75 (EX_TEMPFAIL) as any.
const exitConfig = 78

// A run gets longer than its hook: to be admitted, and to be killed.
const (
	runSlack   = time.Minute
	runLongest = time.Hour // of a hook whose limit the executor alone knows
)

// What became of an attempt.
const (
	resultOK         = "ok"
	resultRetry      = "retry"
	resultDead       = "dead"
	resultAway       = "away"
	resultSuperseded = "superseded"
	resultCanceled   = "canceled"
)

// run is one call of the executor.
type run struct {
	s      *subject
	m      *mark
	event  *Event
	began  time.Time
	took   time.Duration
	ctx    context.Context
	cancel context.CancelFunc
	resp   *hooksv1.ExecuteHookResponse
	err    error
	reply  chan *run // one slot; for a run by hand

	dropped []string // what is to be logged of older events that its end pushed out
}

// launch starts what is due. Nothing is started that the store does not know of.
func (d *Dispatcher) launch() {
	if d.unsaved() || d.exec == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.promote()
	for s := d.pick(); s != nil; s = d.pick() {
		m := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.def.running++
		d.running++
		d.begin(s, m, d.runs, nil)
	}
}

// begin starts one run. The definition is named and nothing else of it is sent: the
// executor has its own, and refuses what differs.
func (d *Dispatcher) begin(s *subject, m *mark, ctx context.Context, reply chan *run) {
	hook := s.def.hook
	limit := runLongest
	if hook.Timeout > 0 {
		limit = hook.Timeout
	}
	r := &run{s: s, m: m, event: m.event(hook.Name), began: d.opts.Now(), reply: reply}
	r.ctx, r.cancel = context.WithTimeout(ctx, limit+runSlack)
	s.running, m.tried, m.stale = m, true, false
	exec := d.exec
	req := &hooksv1.Hook{
		Name: hook.Name, Env: r.event.Env(),
		TimeoutSeconds: int32(min(math.MaxInt32, (hook.Timeout+time.Second-1)/time.Second)),
	}
	go func() {
		r.resp, r.err = exec.Execute(r.ctx, req)
		r.took = d.opts.Now().Sub(r.began)
		d.inbox.Lock()
		d.inbox.ended = append(d.inbox.ended, r)
		d.inbox.Unlock()
		d.wake()
	}()
}

// verdict is what an attempt means for the event, with how it failed in a sentence.
func (r *run) verdict() (result, trouble string) {
	if r.err == nil {
		switch {
		case r.resp.GetError() == "":
			return resultOK, ""
		case errors.Is(context.Cause(r.ctx), errStopping):
			return resultCanceled, r.resp.GetError()
		case r.resp.GetExitCode() == exitConfig:
			return resultDead, r.resp.GetError()
		}
		return resultRetry, r.resp.GetError()
	}
	trouble = r.err.Error()
	if errors.Is(context.Cause(r.ctx), errStopping) {
		return resultCanceled, trouble
	}
	switch status.Code(r.err) {
	case codes.Unavailable:
		return resultAway, trouble
	case codes.InvalidArgument, codes.PermissionDenied, codes.NotFound, codes.FailedPrecondition:
		return resultDead, trouble
	}
	return resultRetry, trouble
}

// settle takes in the end of a run. The mark is stored by the flush that follows,
// and only after that does the next event of this hook and owner start.
func (d *Dispatcher) settle(r *run) {
	defer r.cancel()
	result, trouble := r.verdict()
	var next time.Time
	d.mu.Lock()
	s, f := r.s, r.s.def
	s.running = nil
	if r.m.test {
		d.byHand--
	} else {
		d.running--
		f.running--
		if !f.gone {
			d.dirty[markKey{f.hook.Name, r.m.owner, r.m.origin, r.m.typ}] = true
			result, next = d.conclude(r, result, trouble)
		}
	}
	if s.tidy(); f.gone && len(f.subjects) == 0 {
		delete(d.defs, f.hook.Name)
	}
	d.enqueue(s)
	d.mu.Unlock()
	d.record(r, result, trouble, next)
	for _, line := range r.dropped {
		d.opts.Log("warning", line)
	}
	if r.reply != nil {
		r.reply <- r
	}
}

// conclude decides what is left to tell after a run, and when.
func (d *Dispatcher) conclude(r *run, result, trouble string) (string, time.Time) {
	s, m := r.s, r.m
	if result == resultAway {
		d.awayFailed(r)
	} else if result != resultCanceled {
		s.def.away = backoff{}
	}
	if result == resultOK {
		return result, time.Time{}
	}
	m.trouble = clip(trouble)
	if result != resultCanceled && result != resultAway { // nothing ran, or was cut off
		m.attempts++
	}
	if newer := s.take(m); newer != nil {
		// What it did before it failed is not known: the newer one tells the whole way.
		if m := supersede(s.def.hook, m, newer); m != nil {
			s.wait(m)
		}
		return resultSuperseded, time.Time{}
	}
	if m.stale && result != resultCanceled {
		return resultSuperseded, time.Time{}
	}
	if result == resultRetry {
		if m.failures++; m.failures >= maxFailures {
			result = resultDead
		}
	}
	switch result {
	case resultDead:
		r.dropped = d.bury(s, m)
		return result, time.Time{}
	case resultRetry:
		m.due = d.opts.Now().Add(d.jitter(m.failures, retryMost))
	}
	s.wait(m)
	return result, m.due
}

// bury gives an event up. When there are too many of them the oldest is forgotten: it
// was told as an error in its time, and nobody has asked for it since. What it
// returns is to be logged once the lock is free.
func (d *Dispatcher) bury(s *subject, m *mark) (lines []string) {
	hook := s.def.hook.Name
	for _, g := range s.def.bury(s, m, d.opts.GivenUp) {
		d.dirty[markKey{hook, g.m.owner, g.m.origin, g.m.typ}] = true
		lines = append(lines, fmt.Sprintf("Hook has more than %d events that were given up, the oldest is dropped: hook=%s id=%s zone=%s name=%s type=%s",
			d.opts.GivenUp, hook, g.m.id, g.m.origin, g.m.owner, zone.TypeString(g.m.typ)))
	}
	return lines
}

// awayFailed holds a hook up whose executor cannot be reached; another hook may have
// another. It counts the times that was found out, not the runs that were under way.
func (d *Dispatcher) awayFailed(r *run) {
	b := &r.s.def.away
	if r.began.Before(b.until) {
		return
	}
	b.failures++
	b.until = d.opts.Now().Add(d.jitter(b.failures, awayMost))
}

// jitter is the pause after the n-th failure in a row: anything up to 1 s, 2 s,
// 4 s, and so on ("full jitter"), so that what failed together does not
// come back together.
func (d *Dispatcher) jitter(n int, most time.Duration) time.Duration {
	ceiling := min(most, retryFirst<<min(n-1, 20))
	return time.Duration(d.opts.Rand()%uint64(ceiling)) + 1
}

// clip bounds what is kept and logged of a failure, and keeps it on one line.
func clip(s string) string {
	const most = 512
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// record tells log, observer and listing of an attempt.
func (d *Dispatcher) record(r *run, result, trouble string, next time.Time) {
	e := r.event
	line := fmt.Sprintf("hook=%s event=%s id=%s zone=%s name=%s type=%s attempt=%d result=%s took=%v",
		e.Hook, e.Event, e.ID, e.Zone, e.FQDN, e.Type, e.Try, result, r.took.Round(time.Millisecond))
	level, what := "info", "Hook ran: "
	switch {
	case r.m.test:
		what = "Hook ran by hand: "
	case result == resultDead:
		level, what = "error", "Hook failed and is given up: "
	case result == resultCanceled:
		what = "Hook was ended and is tried again after the start: "
	case result == resultSuperseded:
		level, what = "warning", "Hook failed, a newer change takes over: "
	case result == resultAway:
		level, what = "warning", "Hook waits for what runs it: "
	case result != resultOK:
		level, what = "warning", "Hook failed and is tried again: "
	}
	if !next.IsZero() {
		line += " in=" + next.Sub(d.opts.Now()).Round(time.Millisecond).String()
	}
	if trouble != "" {
		line += fmt.Sprintf(" error=%q", clip(trouble))
	}
	d.opts.Log(level, what+line)
	d.mu.Lock()
	f := r.s.def
	f.last = append(f.last, LastResult{
		ID: e.ID, Event: e.Event, FQDN: e.FQDN, Type: e.Type, Attempt: e.Try, Result: result, Error: clip(trouble),
		Time: r.began.UTC(), Seconds: r.took.Seconds(), ByHand: r.m.test,
	})
	if len(f.last) > keepResults {
		f.last = append(f.last[:0], f.last[len(f.last)-keepResults:]...)
	}
	d.mu.Unlock()
	if d.opts.Observer != nil && !r.m.test {
		d.opts.Observer.Attempt(e.Hook, result, r.took)
	}
}

package hooks

import (
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// An Outcome is the fate of one run.
type Outcome struct {
	// Err says why nothing was started, or what is left when not everything could
	// be killed; nil otherwise, also for a command that failed.
	Err error

	Started  bool
	ExitCode int            // -1 when the command never started or a signal ended it
	Signal   syscall.Signal // 0 when it exited by itself
	TimedOut bool           // its time limit was reached
	Canceled bool           // the caller gave up, or the Runner was closed
	Killed   bool           // something had to be killed: it, or what it left behind
	Output   string         // the first 4 KiB and the last 60 KiB
	Missing  int64          // octets that Output leaves out
	Limit    time.Duration  // the time limit that was in force
	Duration time.Duration
}

// Result is one word for metrics and logs: ok, failed, signal, timeout,
// canceled, refused (nothing was started) or stuck (something could not be killed).
func (o *Outcome) Result() string {
	switch {
	case !o.Started:
		return "refused"
	case o.Err != nil:
		return "stuck"
	case o.Canceled:
		return "canceled"
	case o.TimedOut:
		return "timeout"
	case o.Signal != 0:
		return "signal"
	case o.ExitCode != 0:
		return "failed"
	}
	return "ok"
}

// Sentence is empty for a success, and otherwise says how the run failed, with
// the last of its output on one line.
func (o *Outcome) Sentence() string {
	var s string
	switch o.Result() {
	case "ok":
		return ""
	case "refused":
		return fmt.Sprintf("not started: %v", o.Err)
	case "stuck":
		s = o.Err.Error()
	case "canceled":
		s = "ended because the caller gave up"
	case "timeout":
		s = fmt.Sprintf("timed out after %v", o.Limit)
	case "signal":
		s = fmt.Sprintf("ended by signal %d (%v)", int(o.Signal), o.Signal)
	default:
		s = fmt.Sprintf("exit status %d", o.ExitCode)
	}
	if tail := lastLine(o.Output, 512); tail != "" {
		s += ": " + tail
	}
	return s
}

// Response is the Outcome as the service tells it.
func (o *Outcome) Response() *hooksv1.ExecuteHookResponse {
	return &hooksv1.ExecuteHookResponse{
		Error:                o.Sentence(),
		ExitCode:             int32(max(math.MinInt32, min(o.ExitCode, math.MaxInt32))),
		Signal:               int32(o.Signal),
		TimedOut:             o.TimedOut,
		Output:               o.Output,
		DurationMilliseconds: o.Duration.Milliseconds(),
		OutputTruncated:      o.Missing > 0,
		Started:              o.Started,
		Killed:               o.Killed,
	}
}

// ended takes over how the command itself ended.
func (o *Outcome) ended(state *os.ProcessState) {
	o.ExitCode = state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		o.ExitCode, o.Signal = -1, ws.Signal()
	}
}

func notStarted(err error) Outcome { return Outcome{Err: err, ExitCode: -1} }

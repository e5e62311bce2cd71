package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// changing are the system calls that change a file or make it durable.
const changing = "pwrite64,fdatasync,fsync,ftruncate,fallocate,linkat,unlinkat,renameat"

// pair is the update that a name's A and AAAA records stand for; they are always
// updated together.
func (p *process) pair(t *testing.T, name string) int64 {
	t.Helper()
	a, aaaa := number(p.address(name, dns.TypeA)), number(p.address(name, dns.TypeAAAA))
	if a != aaaa {
		t.Fatalf("%s is half updated: A of update %d, AAAA of update %d", name, a, aaaa)
	}
	return a
}

// killed waits for the end and reports whether it was SIGKILL.
func (p *process) killed(limit time.Duration) bool {
	select {
	case <-p.ended:
	case <-time.After(limit):
		return false
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// phase is a part of an update's way to the disk.
type phase struct {
	name string
	// before brings the program to where the phase begins; the names are at update k.
	before func(t *testing.T, p *process, k int64)
	// provoke makes it pass through the phase. sent is set when that was update k+1, and
	// err is its outcome.
	provoke func(p *process, k int64) (sent bool, r reply, err error)
	least   map[string]int // calls it is known to make
	writes  int            // calls of write(2) by which the update is logged and answered
}

// The log is made, or taken into use, by the first update after a start. Each
// update is a record of it. A second later what it holds is moved to the database.
var phases = []phase{
	{
		"the first update after a start",
		func(t *testing.T, p *process, k int64) {
			p.publish(t, k)
			p.kill()
			p.start()
		},
		func(p *process, k int64) (bool, reply, error) {
			r, err := p.update(nil, "victim", v4(k+1), v6(k+1))
			return true, r, err
		},
		map[string]int{"pwrite64": 3, "fdatasync": 3, "fsync": 1}, 3,
	},
	{
		"an update",
		func(t *testing.T, p *process, k int64) { p.publish(t, k) },
		func(p *process, k int64) (bool, reply, error) {
			r, err := p.update(nil, "victim", v4(k+1), v6(k+1))
			return true, r, err
		},
		map[string]int{"pwrite64": 1, "fdatasync": 1}, 3,
	},
	{
		"moving it to the database",
		func(t *testing.T, p *process, k int64) { p.publish(t, k) },
		func(p *process, k int64) (bool, reply, error) {
			select {
			case <-p.ended:
			case <-time.After(1500 * time.Millisecond):
			}
			return false, reply{}, nil
		},
		map[string]int{"pwrite64": 2, "fdatasync": 2}, 0,
	},
}

// publish makes update k of the victim.
func (p *process) publish(t *testing.T, k int64) reply {
	t.Helper()
	r, err := p.update(nil, "victim", v4(k), v6(k))
	if err != nil {
		t.Fatalf("update %d: %v", k, err)
	}
	return r
}

// calls watches a phase and returns how often each call that changes a file is
// made in it, at most.
func (f *phase) calls(t *testing.T, p *process, k *int64) map[string]int {
	t.Helper()
	most := make(map[string]int)
	for range 2 {
		*k += 2
		f.before(t, p, *k)
		in := p.inject(straced{changing, "delay_enter=1", ""})
		if _, _, err := f.provoke(p, *k); err != nil {
			t.Fatal(err)
		}
		in.end()
		b, err := os.ReadFile(in.output)
		if err != nil {
			t.Fatal(err)
		}
		counts := make(map[string]int)
		for _, m := range regexp.MustCompile(`(?m)^\d+\s+(\w+)\(`).FindAllStringSubmatch(string(b), -1) {
			counts[m[1]]++
		}
		for call, n := range counts {
			most[call] = max(most[call], n)
		}
	}
	for call, n := range f.least {
		if most[call] < n {
			t.Fatalf("%s makes %v: that is not durable, or it was not seen", f.name, most)
		}
	}
	return most
}

// TestSIGKILLAtEverySystemCallOfACommit kills the program at the start of each call
// by which an update gets to the disk, and of those by which it is answered.
func TestSIGKILLAtEverySystemCallOfACommit(t *testing.T) {
	for _, f := range phases {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.killAtEveryCall(t)
		})
	}
}

func (f *phase) killAtEveryCall(t *testing.T) {
	p := prepare(t)
	p.start()
	k, killed, durable, updates := int64(100), 0, 0, 0
	calls := f.calls(t, p, &k)
	calls["write"] = f.writes
	t.Logf("calls: %v", calls)
	for call, count := range calls {
		for n := 1; n <= count; n++ {
			fault := straced{call, "signal=KILL", fmt.Sprint(n)}
			hit := false
			for try := 0; try < 3 && !hit; try++ {
				k += 2
				f.before(t, p, k)
				serial := p.serial()
				in := p.inject(fault)
				sent, r, err := f.provoke(p, k)
				acknowledged := sent && err == nil
				if hit = p.killed(time.Second / 2); hit {
					p.start()
				}
				in.end()
				got := p.pair(t, "victim")
				switch {
				case got != k && (got != k+1 || !sent):
					t.Fatalf("%v: update %d was acknowledged, it is at %d (the next one was sent: %t)", fault, k, got, sent)
				case acknowledged && got != k+1:
					t.Fatalf("%v: update %d was acknowledged and is lost", fault, k+1)
				case int32(p.serial()-serial) < 0 || acknowledged && p.serial() < r.body.Serial:
					t.Fatalf("%v: the serial went back to %d", fault, p.serial())
				}
				if hit {
					killed++
				}
				if hit && sent {
					updates++
					if got == k+1 {
						durable++
					}
				}
			}
			// Each thread counts its own calls, so the last ones may not be reached.
			if !hit && n <= f.least[call] {
				t.Errorf("%v: it was not killed", fault)
			}
		}
	}
	t.Logf("killed %d times, in %d of them during an update, which had become durable in %d", killed, updates, durable)
	if updates > 0 && (durable == 0 || durable == updates) {
		t.Errorf("%d of %d were durable: the calls around the point of no return were missed", durable, updates)
	}
}

// startCalls are the calls by which the first start makes the database and its
// zone, as often as it makes them.
var startCalls = map[string]int{"pwrite64": 6, "fdatasync": 5, "fsync": 1, "ftruncate": 1, "linkat": 1, "unlinkat": 1}

// TestFaultsWhileTheDatabaseIsMade kills the first start, or has its disk fail, at
// each call. The next start must always work.
func TestFaultsWhileTheDatabaseIsMade(t *testing.T) {
	t.Parallel()
	effects := []string{"signal=KILL", "error=EIO", "error=ENOSPC"}
	hits := 0
	for call, count := range startCalls {
		for n := 1; n <= count; n++ {
			for e, effect := range effects {
				if !long() && e > 0 && n%2 == 0 {
					continue
				}
				fault := straced{call, effect, fmt.Sprint(n)}
				p := prepare(t)
				p.launchFaulty(fault)
				switch up := p.cameUp(); {
				case up && effect != "signal=KILL":
					p.recovered(t) // each thread counts, so another may meet it now
				case up: // the calls were made by two threads, neither of which made so many
				case effect == "signal=KILL":
					hits++
					if !p.killed(time.Second) {
						t.Errorf("%v: it ended otherwise\n%s", fault, tail(p.log.String()))
					}
				default:
					hits++
					said := p.log.String()
					if !strings.Contains(said, "ddns.db") || strings.Contains(said, "goroutine ") {
						t.Errorf("%v: it ended without a sentence that names the file:\n%s", fault, said)
					}
				}
				_ = p.cmd.Process.Kill()
				<-p.ended
				p.start()
				p.answers(t)
				p.kill()
				left, _ := filepath.Glob(filepath.Join(p.dir, ".ddns.db.*"))
				if len(left) > 1 {
					t.Errorf("%v: left behind: %v", fault, left)
				}
			}
		}
	}
	if hits < 20 {
		t.Errorf("only %d faults were met: that proves little", hits)
	}
	t.Logf("%d starts ended by a fault", hits)
}

// cameUp waits until the program answers, or has ended.
func (p *process) cameUp() bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if _, err := p.call("GET", "/ping", nil); err == nil {
			if _, err := p.query("udp", "dyn.example.org", dns.TypeSOA); err == nil {
				return true
			}
		}
		select {
		case <-p.ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	p.t.Fatalf("it neither answers nor ends\n%s", tail(p.log.String()))
	return false
}

// TestErrorAtEveryWriteAndSync has each write and sync of a commit fail, with the
// work not done. The update is refused or durable, queries go on, and without a
// restart updates are taken again.
func TestErrorAtEveryWriteAndSync(t *testing.T) {
	for _, f := range phases {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.failEveryCall(t)
		})
	}
}

func (f *phase) failEveryCall(t *testing.T) {
	p := prepare(t)
	p.start()
	k, refused, hits := int64(100), 0, 0
	calls := f.calls(t, p, &k)
	for _, errno := range []string{"EIO", "ENOSPC"} {
		for call, count := range calls {
			for n := 1; n <= count; n++ {
				if !long() && n > f.least[call] {
					continue // seldom met: each thread counts its own
				}
				fault := straced{call, "error=" + errno, fmt.Sprint(n)}
				k += 2
				f.before(t, p, k)
				in := p.inject(fault)
				sent, r, err := f.provoke(p, k)
				acknowledged := sent && err == nil
				if err != nil {
					refused++
					if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
						t.Errorf("%v: got %v %v, want 503 with Retry-After", fault, err, r.header)
					}
				}
				wrong := func(got int64) bool {
					return got != k && (got != k+1 || !sent) || acknowledged && got != k+1
				}
				if got := p.pair(t, "victim"); wrong(got) {
					t.Fatalf("%v: at %d, but %d was acknowledged (the next one sent: %t, acknowledged: %t)", fault, got, k, sent, acknowledged)
				}
				p.recovered(t)
				in.end()
				hits += min(1, in.hits())
				settled := p.pair(t, "victim")
				p.kill()
				p.start()
				if got := p.pair(t, "victim"); got != settled || wrong(got) {
					t.Fatalf("%v: at %d after recovery, at %d after a restart; %d was acknowledged (the next one: %t)", fault, settled, got, k, acknowledged)
				}
			}
		}
	}
	t.Logf("%d faults were met, %d updates refused", hits, refused)
	if hits < 3 {
		t.Errorf("only %d faults were met: that proves little", hits)
	}
}

// TestDiskThatDoesNotComeBack fails every sync. Queries go on for as long as it
// takes; and when the disk is well again, updates do too.
func TestDiskThatDoesNotComeBack(t *testing.T) {
	t.Parallel()
	p := prepare(t)
	p.start()
	if _, err := p.update(nil, "a", v4(1), v6(1)); err != nil {
		t.Fatal(err)
	}
	in := p.inject(straced{"fdatasync", "error=EIO", ""})
	for k := range int64(20) {
		if r, err := p.update(nil, "a", v4(k+2), v6(k+2)); err == nil || r.status != http.StatusServiceUnavailable {
			t.Errorf("with a disk that is broken: got %d, %v", r.status, err)
		}
		if r, err := p.call("GET", "/ping", nil); err != nil || r.status != http.StatusOK {
			t.Errorf("ping: got %d, %v", r.status, err)
		}
		if p.pair(t, "a") == 0 {
			t.Error("a is gone")
		}
	}
	in.end()
	p.recovered(t)
	want := p.pair(t, "a")
	p.kill()
	p.start()
	if got := p.pair(t, "a"); got != want {
		t.Errorf("at %d before the restart, at %d after it", want, got)
	}
}

// TestSIGKILLAtTheNthCallUnderLoad is the same without choosing the commit: eight
// writers, and death at the nth write or sync that one thread makes.
func TestSIGKILLAtTheNthCallUnderLoad(t *testing.T) {
	t.Parallel()
	steps := []int{7, 8, 23, 54}
	if long() {
		steps = steps[:0]
		for n := 6; n <= 200; n++ {
			steps = append(steps, n)
		}
	}
	const writers = 8
	p := prepare(t)
	p.start()
	var names [writers]struct{ sent, acknowledged atomic.Int64 }
	for _, call := range []string{"fdatasync", "pwrite64"} {
		for _, n := range steps {
			fault := straced{call, "signal=KILL", fmt.Sprint(n)}
			in := p.inject(fault)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}, Timeout: 10 * time.Second}
			var running sync.WaitGroup
			for w := range writers {
				running.Go(func() {
					for k := names[w].sent.Add(1); ; k = names[w].sent.Add(1) {
						if _, err := p.update(client, host(w), v4(k), v6(k)); err != nil {
							return
						}
						names[w].acknowledged.Store(k)
					}
				})
			}
			if !p.killed(60 * time.Second) {
				t.Fatalf("%v: it was not killed", fault)
			}
			running.Wait()
			client.CloseIdleConnections()
			in.end()
			p.start()
			for w := range writers {
				if got := p.pair(t, host(w)); got < names[w].acknowledged.Load() || got > names[w].sent.Load() {
					t.Fatalf("%v: %s is at %d, but %d was acknowledged and %d sent", fault, host(w), got, names[w].acknowledged.Load(), names[w].sent.Load())
				}
			}
		}
	}
}

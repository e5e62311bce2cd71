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

// commitCalls watches updates being committed and returns how often each call that
// changes a file is made for one of them, at most.
func (p *process) commitCalls(t *testing.T) map[string]int {
	t.Helper()
	most := make(map[string]int)
	for k := range int64(3) {
		in := p.inject(straced{changing, "delay_enter=1", ""})
		if _, err := p.update(nil, "watched", v4(k+1), v6(k+1)); err != nil {
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
	if most["pwrite64"] < 2 || most["fdatasync"] < 2 {
		t.Fatalf("a commit makes %v: that is not a durable one, or it was not seen", most)
	}
	return most
}

// TestSIGKILLAtEverySystemCallOfACommit kills the program at the start of each call
// by which an update gets to the disk, and of those by which it is answered.
func TestSIGKILLAtEverySystemCallOfACommit(t *testing.T) {
	t.Parallel()
	p := prepare(t)
	p.start()
	calls := p.commitCalls(t)
	calls["write"] = 3 // the log and the answer
	t.Logf("a commit: %v", calls)
	k, killed, durable := int64(100), 0, 0
	for call, count := range calls {
		for n := 1; n <= count; n++ {
			fault := straced{call, "signal=KILL", fmt.Sprint(n)}
			hit := false
			for try := 0; try < 3 && !hit; try++ {
				k += 2
				before, err := p.update(nil, "victim", v4(k), v6(k))
				if err != nil {
					t.Fatalf("%v: before it: %v", fault, err)
				}
				in := p.inject(fault)
				r, err := p.update(nil, "victim", v4(k+1), v6(k+1))
				acknowledged := err == nil
				if hit = p.killed(time.Second); hit {
					p.start()
				}
				in.end()
				got := p.pair(t, "victim")
				switch {
				case got != k && got != k+1:
					t.Fatalf("%v: update %d was acknowledged, %d was sent, it is at %d", fault, k, k+1, got)
				case acknowledged && got != k+1:
					t.Fatalf("%v: update %d was acknowledged and is lost", fault, k+1)
				case p.serial() < before.body.Serial || acknowledged && p.serial() < r.body.Serial:
					t.Fatalf("%v: the serial went back to %d", fault, p.serial())
				}
				if hit {
					killed++
					if got == k+1 {
						durable++
					}
				}
			}
			if !hit && call != "write" {
				t.Errorf("%v: it was not killed", fault)
			}
		}
	}
	t.Logf("killed %d times, the update under way had become durable in %d of them", killed, durable)
	if durable == 0 || durable == killed {
		t.Errorf("%d of %d were durable: the calls around the point of no return were missed", durable, killed)
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
	t.Parallel()
	p := prepare(t)
	p.start()
	calls := p.commitCalls(t)
	k, refused, missed := int64(100), 0, 0
	for _, errno := range []string{"EIO", "ENOSPC"} {
		for call, count := range calls {
			for n := 1; n <= count; n++ {
				fault := straced{call, "error=" + errno, fmt.Sprint(n)}
				k += 2
				if _, err := p.update(nil, "victim", v4(k), v6(k)); err != nil {
					t.Fatalf("%v: before it: %v", fault, err)
				}
				in := p.inject(fault)
				r, err := p.update(nil, "victim", v4(k+1), v6(k+1))
				acknowledged := err == nil
				if !acknowledged {
					refused++
					if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
						t.Errorf("%v: got %v %v, want 503 with Retry-After", fault, err, r.header)
					}
				}
				if got := p.pair(t, "victim"); got != k && got != k+1 || acknowledged && got != k+1 {
					t.Fatalf("%v: at %d, but %d was acknowledged and %d sent (acknowledged: %t)", fault, got, k, k+1, acknowledged)
				}
				p.recovered(t)
				in.end()
				if in.hits() == 0 {
					missed++
				}
				settled := p.pair(t, "victim")
				p.kill()
				p.start()
				if got := p.pair(t, "victim"); got != settled || got != k && got != k+1 || acknowledged && got != k+1 {
					t.Fatalf("%v: at %d after recovery, at %d after a restart; %d was acknowledged (the next one: %t)", fault, settled, got, k, acknowledged)
				}
			}
		}
	}
	t.Logf("%d updates refused", refused)
	if refused < 5 || missed > refused {
		t.Errorf("%d updates were refused and %d faults met nothing: that proves little", refused, missed)
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

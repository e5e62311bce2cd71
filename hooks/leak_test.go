//go:build linux

package hooks_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/hooks"
)

// Runs of every kind, ten at a time: a thousand in all, fewer with -short.
func TestManyRunsLeaveNothing(t *testing.T) {
	needRoot(t)
	n := 1000
	if testing.Short() {
		n = 100
	}
	for _, groups := range []bool{false, true} {
		t.Run(fmt.Sprintf("process groups %v", groups), func(t *testing.T) {
			r := newRunner(t, hooks.RunnerOptions{Parallel: 10, Queue: time.Minute, Grace: 100 * time.Millisecond, ProcessGroups: groups})
			token := fmt.Sprintf("tok%d", time.Now().UnixNano())
			run := func(i int) {
				user := []string{"nobody", "daemon", "www-data"}[i%3]
				kind := []string{
					"true", "exit 7", "kill -KILL $$", "sleep 100 & true",
					"(setsid env -i /bin/sh -c '/bin/sleep 100; :' $0 </dev/null >/dev/null 2>&1 &)",
					"head -c 200000 /dev/zero", "trap '' TERM; sleep 10; sleep 10", "missing",
				}[i%8]
				s := hooks.Spec{Hook: "test", User: user, Timeout: 100 * time.Millisecond, Command: []string{"/bin/sh", "-c", kind, token}}
				if kind != "missing" && i%8 != 6 {
					s.Timeout = 30 * time.Second
				}
				if kind == "missing" {
					s.Command = []string{"/nonexistent"}
				}
				if o := r.Run(t.Context(), s); o.Result() == "stuck" {
					t.Errorf("run %d: %v", i, o.Err)
				}
			}
			crowd := func(n int) {
				var wg sync.WaitGroup
				work := make(chan int)
				for range 10 {
					wg.Go(func() {
						for i := range work {
							run(i)
						}
					})
				}
				for i := range n {
					work <- i
				}
				close(work)
				wg.Wait()
			}
			crowd(50) // what the runtime keeps anyway: threads, the poller, buffers
			goroutines, fds, threads := runtime.NumGoroutine(), descriptors(t), threadCount(t)
			rss := residentKiB(t)
			crowd(n)
			eventually(t, "ending every goroutine", func() bool { return runtime.NumGoroutine() <= goroutines })
			if got := descriptors(t); got > fds {
				t.Errorf("descriptors: %d before, %d after", fds, got)
			}
			eventually(t, "ending every thread", func() bool { return threadCount(t) <= threads+8 })
			if left := withToken(token); len(left) > 0 {
				t.Errorf("processes are left: %v", left)
			}
			if z := zombies(); len(z) > 0 {
				t.Errorf("zombies are left: %v", z)
			}
			if got := residentKiB(t); got > rss+16<<10 {
				t.Errorf("memory: %d KiB before, %d KiB after", rss, got)
			}
		})
	}
}

func threadCount(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func residentKiB(t *testing.T) int {
	t.Helper()
	runtime.GC()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// What is outside the hook and belongs to the host must not be taken for a hook's:
// children of the same process, in sessions of their own, older than the hook.
func TestChildrenOfTheHostAreLeftAlone(t *testing.T) {
	needRoot(t)
	for _, session := range []bool{false, true} {
		p := startSleeper(t, session)
		time.Sleep(20 * time.Millisecond) // start times are in ticks of 10 ms
		r := newRunner(t, hooks.RunnerOptions{ProcessGroups: true})
		s := ownSpec("/bin/sh", "-c", "true")
		for range 5 {
			if o := r.Run(t.Context(), s); o.Sentence() != "" {
				t.Fatal(o.Sentence())
			}
		}
		if !p.alive() {
			t.Errorf("a child of the host was killed (own session: %v)", session)
		}
	}
}

// A child of the host that has ended is the host's to wait for, and one that it
// starts while a hook runs is not the hook's.
func TestHostWaitsForItsOwnChildren(t *testing.T) {
	r := newRunner(t, hooks.RunnerOptions{ProcessGroups: true})
	done := make(chan hooks.Outcome)
	go func() { done <- r.Run(t.Context(), ownSpec("/bin/sh", "-c", "sleep 0.3; sleep 100 & true")) }()
	time.Sleep(100 * time.Millisecond)
	young := startSleeper(t, false)
	ended := exec.Command("/bin/sh", "-c", "exit 7")
	if err := ended.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "becoming a zombie", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", ended.Process.Pid))
		return err == nil && strings.Contains(string(b), ") Z ")
	})
	if o := <-done; o.Sentence() != "" {
		t.Error(o.Sentence())
	}
	if !young.alive() {
		t.Error("a child of the host was killed")
	}
	if ended.Wait(); ended.ProcessState == nil || ended.ProcessState.ExitCode() != 7 {
		t.Errorf("the host cannot see how its child ended: %v", ended.ProcessState)
	}
}

// Two hooks of one user at once: the end of one must not end what the other has.
func TestConcurrentRunsAreKeptApart(t *testing.T) {
	needRoot(t)
	runners(t, func(t *testing.T, r *hooks.Runner) {
		long := make(chan hooks.Outcome)
		go func() {
			long <- r.Run(t.Context(), hooks.Spec{Hook: "long", User: "nobody", Timeout: 20 * time.Second, Command: []string{"/bin/sh", "-c",
				`sh -c 'setsid sh -c "sleep 1; echo daemon lived"  & exit 0'; sleep 1.5; echo done`}})
		}()
		for i := range 10 {
			o := r.Run(t.Context(), hooks.Spec{Hook: "short", User: "nobody", Command: []string{"/bin/sh", "-c", "sleep 0.05"}})
			if o.Sentence() != "" {
				t.Errorf("run %d: %s", i, o.Sentence())
			}
		}
		if o := <-long; o.Sentence() != "" || o.Output != "daemon lived\ndone\n" {
			t.Errorf("the long one: %q, output %q", o.Sentence(), o.Output)
		}
	})
}

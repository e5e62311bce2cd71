package resident_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/coredns-ddns/ddns/internal/resident"
)

func TestTableOpensOnceAndClosesWithTheLast(t *testing.T) {
	var table resident.Table[string, *int]
	var opened, closed atomic.Int32
	open := func() (*int, func() error, error) {
		opened.Add(1)
		return new(int), func() error { closed.Add(1); return nil }, nil
	}
	var leases [16]*resident.Lease[*int]
	var wg sync.WaitGroup
	for i := range leases {
		wg.Go(func() {
			l, err := table.Acquire(nil, "k", open)
			if err != nil {
				t.Error(err)
			}
			leases[i] = l
		})
	}
	wg.Wait()
	if n := opened.Load(); n != 1 {
		t.Fatalf("opened %d times, want once", n)
	}
	for i, l := range leases {
		if l.Value() != leases[0].Value() {
			t.Error("two things of one key")
		}
		if i > 0 {
			_ = l.Release()
			_ = l.Release() // counts once
		}
	}
	if n := closed.Load(); n != 0 {
		t.Fatalf("closed %d times while held", n)
	}
	if err := leases[0].Release(); err != nil || closed.Load() != 1 || table.Len() != 0 {
		t.Errorf("after the last Release: %v, closed %d, open %d; want nil, 1, 0", err, closed.Load(), table.Len())
	}
}

func TestTableKeepsNothingOfAFailedOpen(t *testing.T) {
	var table resident.Table[string, int]
	bad := errors.New("port in use")
	entered, proceed := make(chan struct{}), make(chan struct{})
	errs := make(chan error)
	go func() {
		_, err := table.Acquire(nil, "k", func() (int, func() error, error) {
			close(entered)
			<-proceed
			return 0, nil, bad
		})
		errs <- err
	}()
	<-entered
	close(proceed)
	if err := <-errs; !errors.Is(err, bad) {
		t.Errorf("got %v, want the error of open", err)
	}
	l, err := table.Acquire(nil, "k", func() (int, func() error, error) { return 7, nil, nil })
	if err != nil || l.Value() != 7 {
		t.Errorf("after a failure: got %v, %v, want a new open", l, err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

func TestTableSurvivesAPanicInOpen(t *testing.T) {
	var table resident.Table[string, int]
	func() {
		defer func() { _ = recover() }()
		_, _ = table.Acquire(nil, "k", func() (int, func() error, error) { panic("boom") })
	}()
	if _, err := table.Acquire(nil, "k", func() (int, func() error, error) { return 1, nil, nil }); err != nil {
		t.Errorf("after a panic: got %v, want a new open", err)
	}
}

// A thing that is closed and opened again is never open twice: a database locks
// its file.
func TestTableWaitsForClose(t *testing.T) {
	var table resident.Table[string, int]
	var live, most atomic.Int32
	open := func() (int, func() error, error) {
		if n := live.Add(1); n > most.Load() {
			most.Store(n)
		}
		return 0, func() error { live.Add(-1); return nil }, nil
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				l, err := table.Acquire(nil, "k", open)
				if err != nil {
					t.Error(err)
					return
				}
				_ = l.Release()
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 || live.Load() != 0 || table.Len() != 0 {
		t.Errorf("at most %d open at once, %d left, %d known; want 1, 0, 0", most.Load(), live.Load(), table.Len())
	}
}

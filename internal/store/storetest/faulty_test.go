package storetest_test

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestFaultyWrites(t *testing.T) {
	for _, persisted := range []bool{false, true} {
		f := storetest.NewFaulty(mem.New())
		c := storetest.NewChain("example.org.")
		if err := f.Commit(t.Context(), []store.ZoneCommit{c.Create(1)}); err != nil {
			t.Fatal(err)
		}
		was := c.Clone()
		f.Inject(storetest.Commit, storetest.Fault{Err: storetest.ErrFull, Times: 1, Persisted: persisted})
		err := f.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(0, 5)})})
		for _, want := range []error{storetest.ErrInjected, store.ErrNoSpace, syscall.ENOSPC} {
			if !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		}
		if persisted {
			was = c
		}
		storetest.Verify(t, f, was)
		if err := f.Commit(t.Context(), []store.ZoneCommit{was.Commit([]storetest.Change{c.Set(0, 6)})}); err != nil {
			t.Errorf("after the fault: %v", err)
		}
		if n := f.Calls(storetest.Commit); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	}
}

func TestFaultyEveryStep(t *testing.T) {
	f := storetest.NewFaulty(mem.New())
	c := storetest.NewChain("example.org.")
	if err := f.Commit(t.Context(), []store.ZoneCommit{c.Create(1)}); err != nil {
		t.Fatal(err)
	}
	calls := map[storetest.Step]func() error{
		storetest.Zones: func() error { _, err := f.Zones(); return err },
		storetest.Load:  func() error { _, _, err := f.Load(t.Context(), c.Origin, nil); return err },
		storetest.Commit: func() error {
			return f.Commit(t.Context(), nil)
		},
		storetest.Journal: func() error {
			for _, err := range f.Journal(t.Context(), c.Origin, 0, 1) {
				return err
			}
			return nil
		},
		storetest.Cursors:   func() error { _, err := f.Cursors("f"); return err },
		storetest.Followers: func() error { _, err := f.Followers(); return err },
		storetest.Items: func() error {
			for _, err := range f.Items("f", "") {
				return err
			}
			return nil
		},
		storetest.Advance: func() error { return f.Advance(t.Context(), store.Advance{Follower: "f"}) },
		storetest.Forget:  func() error { return f.Forget(t.Context(), "f") },
		storetest.Remove:  func() error { return f.Remove(t.Context(), zone.Root) },
		storetest.Backup: func() error {
			_, err := f.Backup(t.Context(), nil)
			if errors.Is(err, store.ErrRefused) {
				return nil // a store in memory
			}
			return err
		},
	}
	for _, step := range storetest.Steps {
		call := calls[step]
		if call == nil {
			t.Fatalf("no call for %s", step)
		}
		f.Inject(step, storetest.Fault{Times: 1, Skip: 1})
		for i, want := range []error{nil, storetest.ErrInjected, nil} {
			if err := call(); !errors.Is(err, want) {
				t.Errorf("%s, call %d: error %v, want %v", step, i+1, err, want)
			}
		}
		f.Inject(step, storetest.Fault{Times: -1})
		for range 3 {
			if err := call(); !errors.Is(err, storetest.ErrInjected) {
				t.Errorf("%s for ever: error %v", step, err)
			}
		}
		f.Heal()
		if err := call(); err != nil {
			t.Errorf("%s healed: error %v", step, err)
		}
	}
}

func TestFaultySequenceBreaksOff(t *testing.T) {
	f := storetest.NewFaulty(mem.New())
	c := storetest.NewChain("example.org.")
	for i := range 5 {
		if err := f.Commit(t.Context(), []store.ZoneCommit{c.Commit([]storetest.Change{c.Set(0, i)})}); err != nil {
			t.Fatal(err)
		}
	}
	f.Inject(storetest.Journal, storetest.Fault{Times: 1, After: 3})
	n := 0
	var last error
	for _, err := range f.Journal(t.Context(), c.Origin, 0, math.MaxUint64) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 3 || !errors.Is(last, storetest.ErrInjected) {
		t.Errorf("%d entries, then %v", n, last)
	}
}

func TestFaultyGate(t *testing.T) {
	f := storetest.NewFaulty(mem.New())
	c := storetest.NewChain("example.org.")
	gate, entered := make(chan struct{}), make(chan struct{})
	f.Inject(storetest.Commit, storetest.Fault{Gate: gate, Entered: entered})
	done := make(chan error)
	zc := c.Create(1)
	go func() { done <- f.Commit(t.Context(), []store.ZoneCommit{zc}) }()
	<-entered
	if _, found, err := f.Load(t.Context(), c.Origin, nil); found || err != nil {
		t.Errorf("behind the gate: found %v, %v", found, err)
	}
	close(gate)
	if err := <-done; err != nil {
		t.Error(err)
	}
	storetest.Verify(t, f, c)
}

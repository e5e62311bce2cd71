package resident_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/coredns-ddns/ddns/internal/resident"
)

func TestFailedReloadDropsWhatItAcquired(t *testing.T) {
	var table resident.Table[string, int]
	open := func(n int, closed *int) func() (int, func() error, error) {
		return func() (int, func() error, error) { return n, func() error { *closed++; return nil }, nil }
	}
	var sharedClosed, newClosed int
	old := resident.NewGeneration()
	if old.Successor() {
		t.Error("the first generation succeeds another")
	}
	if _, err := table.Acquire(old, "shared", open(1, &sharedClosed)); err != nil {
		t.Fatal(err)
	}

	old.Restart()
	old.Restart() // by another stanza
	next := resident.NewGeneration()
	if !next.Successor() || !old.Replaced() {
		t.Errorf("during a reload: got Successor %v, Replaced %v, want both", next.Successor(), old.Replaced())
	}
	for _, key := range []string{"shared", "new"} {
		if _, err := table.Acquire(next, key, open(2, &newClosed)); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.RestartFailed(); err != nil {
		t.Fatal(err)
	}
	if err := old.RestartFailed(); err != nil { // by another stanza
		t.Fatal(err)
	}
	if newClosed != 1 || sharedClosed != 0 {
		t.Errorf("after a failed reload: closed %d new and %d shared, want 1 and 0", newClosed, sharedClosed)
	}
	if !next.Dropped() || old.Dropped() || old.Replaced() {
		t.Error("after a failed reload the old generation is not the current one")
	}
	if _, err := table.Acquire(next, "late", open(3, &newClosed)); !errors.Is(err, resident.ErrDropped) {
		t.Errorf("Acquire with a dropped generation: got %v, want ErrDropped", err)
	}
	if n := table.Len(); n != 1 {
		t.Errorf("got %d things open, want 1", n)
	}
}

func TestReloadThatSucceedsAfterOneThatFailed(t *testing.T) {
	old := resident.NewGeneration()
	old.Restart()
	failed := resident.NewGeneration()
	if err := old.RestartFailed(); err != nil {
		t.Fatal(err)
	}
	old.Restart()
	good := resident.NewGeneration()
	var undone bool
	if err := good.OnDrop(func() error { undone = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 { // two stanzas
		if !old.Shutdown() {
			t.Error("Shutdown after Restart: got a final one, want a reload's")
		}
	}
	if !old.Replaced() {
		t.Error("Replaced is forgotten after Shutdown")
	}
	// The host calls OnRestartFailed also when an OnShutdown returned an error.
	if err := old.RestartFailed(); err != nil || undone || good.Dropped() {
		t.Errorf("RestartFailed after Shutdown: got %v and rolled back %v, want nothing done", err, undone)
	}
	if !failed.Dropped() || !good.Newer(old) {
		t.Error("the wrong generation is current")
	}
	if good.Shutdown() {
		t.Error("Shutdown without Restart: got a reload's, want the final one")
	}
}

func TestDropRunsBackwardsOnceAndAtOnceAfterwards(t *testing.T) {
	g := resident.NewGeneration()
	var ran []string
	note := func(s string, err error) func() error {
		return func() error { ran = append(ran, s); return err }
	}
	bad := errors.New("bad")
	_ = g.OnDrop(note("first", bad))
	_ = g.OnDrop(note("second", nil))
	if err := g.Drop(); !errors.Is(err, bad) {
		t.Errorf("got %v, want the error of what was undone", err)
	}
	if err := g.Drop(); err != nil {
		t.Errorf("second Drop: got %v, want nil", err)
	}
	if err := g.OnDrop(note("late", bad)); !errors.Is(err, bad) {
		t.Errorf("OnDrop after Drop: got %v, want the error", err)
	}
	if want := []string{"second", "first", "late"}; !slices.Equal(ran, want) {
		t.Errorf("got %v, want %v", ran, want)
	}
}

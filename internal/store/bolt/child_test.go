package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/storetest"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// The test binary is also the process that is killed, or whose system calls fail:
// the environment says so.
const childEnv = "DDNS_STORE_CHILD"

// nilContext is for what is not part of a test.
var nilContext = context.Background()

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "commit":
		commitForEver(os.Args[1])
	case "faults":
		// strace counts the calls of each thread.
		runtime.LockOSThread()
		commitUnderFaults(os.Args[1])
	case "filesize":
		limit, _ := strconv.ParseUint(os.Args[2], 10, 64)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			die("limiting file sizes: %v", err)
		}
		commitUntilFull(os.Args[1])
	}
}

func die(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// step is the j-th commit of a history that is the same in every process. It has
// one to three changesets and, at times, trims.
func step(c *storetest.Chain, j int) store.ZoneCommit {
	if j == 0 {
		return c.Create(200)
	}
	groups := make([][]storetest.Change, 1+j%3)
	for i := range groups {
		groups[i] = []storetest.Change{c.Set((j*3+i)%200, j), c.Set(300+(j*3+i)%100, j)}
	}
	zc := c.Commit(groups...)
	if j%7 == 0 && c.State.Last > 60 {
		zc = c.Trim(zc, c.State.Last-50)
	}
	return zc
}

// history replays steps until the zone is at a position; an error when no step
// ends there: then part of a commit is to be seen.
func history(last store.Position) (c *storetest.Chain, next int, err error) {
	c = storetest.NewChain("dyn.example.org.")
	for ; c.State.Last < last; next++ {
		step(c, next)
	}
	if c.State.Last != last {
		return nil, 0, fmt.Errorf("at %d, where no commit ends", last)
	}
	return c, next, nil
}

// inspect checks a store against the history and returns how far it is.
func inspect(s store.Store) (c *storetest.Chain, next int, err error) {
	st, _, err := s.Load(nilContext, zone.MustName("dyn.example.org."), nil)
	if err != nil {
		return nil, 0, err
	}
	if c, next, err = history(st.Last); err != nil {
		return nil, 0, err
	}
	if err := storetest.Compare(s, c); err != nil {
		return nil, 0, err
	}
	cursors, err := s.Cursors("f")
	if err != nil {
		return nil, 0, err
	}
	note := ""
	for it, err := range s.Items("f", "") {
		if err != nil {
			return nil, 0, err
		}
		note = string(it.Value)
	}
	if at := cursors[c.Origin]; at > st.Last || (at != 0 && note != fmt.Sprint(at)) {
		return nil, 0, fmt.Errorf("cursor at %d of %d, its note says %q", at, st.Last, note)
	}
	return c, next, nil
}

func follow(s store.Store, c *storetest.Chain) error {
	return s.Advance(nilContext, store.Advance{
		Follower: "f", Cursors: map[zone.Name]store.Position{c.Origin: c.State.Last},
		Put: []store.Item{{Key: "at", Value: fmt.Append(nil, c.State.Last)}},
	})
}

// commitForEver prints each position once it is durable, until it is killed.
func commitForEver(path string) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		die("%v", err)
	}
	c, j, err := inspect(s)
	if err != nil {
		die("%v", err)
	}
	for ; ; j++ {
		if err := s.Commit(nilContext, []store.ZoneCommit{step(c, j)}); err != nil {
			die("%v", err)
		}
		fmt.Println(c.State.Last)
		if err := follow(s, c); err != nil {
			die("%v", err)
		}
	}
}

// commitUnderFaults makes thirty commits while one of its system calls fails. A
// failed commit may or may not have happened; the same store has to say which,
// and a new one the same.
func commitUnderFaults(path string) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		fmt.Println("open failed:", err)
		if s, err = bolt.Open(path, bolt.Options{}); err != nil {
			die("opening again: %v", err)
		}
	}
	c, j, err := inspect(s)
	if err != nil {
		die("%v", err)
	}
	for ; j < 30; j++ {
		was := c.Clone()
		err := s.Commit(nilContext, []store.ZoneCommit{step(c, j)})
		if err == nil {
			if err := follow(s, c); err != nil {
				fmt.Println("advance failed:", err)
			}
			continue
		}
		fmt.Println("commit failed:", err)
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrRefused) {
			die("a failed system call is no %v", err)
		}
		now, _, err := inspect(s)
		if err != nil { // the same fault can hit the recovery; not twice
			fmt.Println("recovery failed:", err)
			if now, _, err = inspect(s); err != nil {
				die("after a failed commit: %v", err)
			}
		}
		switch now.State.Last {
		case was.State.Last:
			fmt.Println("not persisted")
			c, j = was, j-1
		case c.State.Last:
			fmt.Println("persisted")
		default:
			die("at %d after a failed commit from %d", now.State.Last, was.State.Last)
		}
	}
	if err := s.Close(); err != nil {
		fmt.Println("close failed:", err)
	}
	if s, err = bolt.Open(path, bolt.Options{}); err != nil {
		if s, err = bolt.Open(path, bolt.Options{}); err != nil {
			die("at the end: %v", err)
		}
	}
	if now, _, err := inspect(s); err != nil || now.State.Last != c.State.Last {
		die("at the end: at %d, want %d: %v", now.State.Last, c.State.Last, err)
	}
	fmt.Println("done")
}

// commitUntilFull commits until the file may not grow any more, and checks that
// nothing is lost by it.
func commitUntilFull(path string) {
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		die("%v", err)
	}
	if err := fill(s); err != nil {
		die("%v", err)
	}
	fmt.Println("done")
}

// fill adds hosts until there is no space, then checks that what was acknowledged
// is there, and that it stays so when it tries again.
func fill(s store.Store) error {
	c := storetest.NewChain("fill.example.org.")
	if err := s.Commit(nilContext, []store.ZoneCommit{c.Create(1)}); err != nil {
		return err
	}
	for i := 0; ; i += 200 {
		was := c.Clone()
		var changes []storetest.Change
		for n := range 200 {
			changes = append(changes, c.Set(i+n, n))
		}
		err := s.Commit(nilContext, []store.ZoneCommit{c.Commit(changes)})
		if err == nil {
			continue
		}
		if !errors.Is(err, store.ErrNoSpace) {
			return fmt.Errorf("no space is reported as: %w", err)
		}
		if i == 0 {
			return errors.New("full before the first commit")
		}
		for range 3 {
			err1, err2 := storetest.Compare(s, was), storetest.Compare(s, c)
			if err1 != nil && err2 != nil && !errors.Is(err1, store.ErrNoSpace) {
				return fmt.Errorf("when full: %w", err1)
			}
		}
		return nil
	}
}

func TestHistoryEndsWhereCommitsDo(t *testing.T) {
	if _, _, err := history(2); err == nil {
		t.Error("half of a commit goes unnoticed")
	}
}

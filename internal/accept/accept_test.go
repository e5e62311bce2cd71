package accept_test

import (
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns-ddns/ddns/internal/accept"
)

// scripted is a listener whose Accept returns these errors in turn, then connections.
type scripted struct {
	net.Listener
	errs   []error
	closed atomic.Bool
}

func (s *scripted) Accept() (net.Conn, error) {
	if s.closed.Load() {
		return nil, net.ErrClosed
	}
	if len(s.errs) == 0 {
		return &net.TCPConn{}, nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, err
}

func (s *scripted) Close() error { s.closed.Store(true); return nil }

func TestErrorsOfAcceptPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []error
		errs := []error{syscall.ENOMEM, syscall.ENOBUFS, syscall.EPROTO, syscall.EPERM, syscall.ENETDOWN, syscall.EMFILE}
		l := accept.Patiently(&scripted{errs: slices.Clone(errs)}, func(err error) { told = append(told, err) })
		begin := time.Now()
		if c, err := l.Accept(); c == nil || err != nil {
			t.Fatalf("%v, %v", c, err)
		}
		// 5 + 10 + … + 160 ms
		if took := time.Since(begin); took != 315*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if len(told) != 1 || told[0] != syscall.ENOMEM {
			t.Errorf("told %v, want the first", told)
		}
	})
}

func TestErrorThatGoesOnIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		inner := &scripted{errs: slices.Repeat([]error{syscall.ENOMEM}, 200)}
		l := accept.Patiently(inner, func(error) { told++ })
		begin := time.Now()
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if minutes := int(time.Since(begin).Minutes()); told != minutes+1 || minutes != 3 {
			t.Errorf("told %d times in %d minutes", told, minutes)
		}
	})
}

func TestCloseEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &scripted{errs: slices.Repeat([]error{syscall.ENOMEM}, 200)}
		l := accept.Patiently(inner, func(error) {})
		ended := make(chan error)
		go func() { _, err := l.Accept(); ended <- err }()
		time.Sleep(10 * time.Second)
		begin := time.Now()
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) || time.Since(begin) > 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

package bolt

import (
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Check reads and checks everything: the structure of the file as Open does, the
// database library's own check, each zone as Load does, every journal entry, every
// cursor and item. Commits wait while the structure is checked, about a second for
// a million hosts. It returns all that it found, joined.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkPages(ctx); err != nil {
		return fmt.Errorf("checking %s: %w", s.path, err)
	}
	zones, err := s.Zones()
	found := []error{err}
	for _, origin := range zones {
		st, ok, err := s.Load(ctx, origin, func(zone.Name, zone.Node) {})
		found = append(found, err)
		if err != nil || !ok {
			continue
		}
		for _, err := range s.Journal(ctx, origin, st.Oldest-1, math.MaxUint64) {
			// A commit may trim what was about to be read.
			if err != nil && !errors.Is(err, store.ErrTrimmed) {
				found = append(found, err)
			}
		}
	}
	followers, err := s.everyFollower()
	found = append(found, err)
	for _, f := range followers {
		_, err := s.Cursors(f)
		found = append(found, err)
		for _, err := range s.Items(f, "") {
			found = append(found, err)
		}
	}
	return errors.Join(found...)
}

// checkPages holds off writers: the library's check may not run beside one.
func (s *Store) checkPages(ctx context.Context) error {
	h, err := s.current()
	if err != nil {
		return err
	}
	err = guard(func() error {
		tx, err := h.db.Begin(true)
		if err != nil {
			return err
		}
		if _, err := verify(h.file); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		var found []error
		for err := range tx.Check() { // to the end, or its goroutine stays
			if len(found) < 100 {
				found = append(found, err)
			}
		}
		found = append(found, tx.Rollback(), ctx.Err())
		return errors.Join(found...)
	})
	var p *panicError
	if errors.As(err, &p) {
		s.retire(h, err)
	}
	return err
}

// everyFollower lists those with items but no cursor too.
func (s *Store) everyFollower() (names []string, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		seen := make(map[string]bool)
		names = nil
		for _, prefix := range []byte{prefixCursors, prefixItems} {
			for _, n := range bucketsOf(tx, prefix) {
				if !seen[n] {
					seen[n] = true
					names = append(names, n)
				}
			}
		}
		return nil
	})
	return names, err
}

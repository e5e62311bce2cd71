// Package mem is the store without a disk: for tests, and for "store memory".
//
// Its one invariant: it obeys the whole contract of package store but the one
// promise it cannot keep, and refuses every call that a durable store would
// refuse, so that what runs on it runs on the others.
package mem

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// batch is how many entries a sequence copies under the lock at a time.
const batch = 256

// Store keeps everything in maps; it is gone with the process.
type Store struct {
	mu        sync.RWMutex
	closed    bool                 // guarded by mu
	zones     map[zone.Name]*held  // guarded by mu
	followers map[string]*follower // guarded by mu
}

type held struct {
	state store.State
	nodes map[zone.Name]zone.Node
	// journal holds the changesets from position state.Oldest on.
	journal []*zone.Changeset
}

type follower struct {
	cursors map[zone.Name]store.Position
	items   map[string][]byte
}

// New returns an empty store.
func New() *Store {
	return &Store{zones: make(map[zone.Name]*held), followers: make(map[string]*follower)}
}

// Zones implements store.Store.
func (s *Store) Zones() ([]zone.Name, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	return slices.Sorted(maps.Keys(s.zones)), nil
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, origin zone.Name, put func(zone.Name, zone.Node)) (store.State, bool, error) {
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return store.State{}, false, store.ErrClosed
	}
	h, found := s.zones[origin]
	if !found {
		s.mu.RUnlock()
		return store.State{}, false, nil
	}
	state, apex := h.state, h.nodes[origin]
	var newest *zone.Changeset
	if n := len(h.journal); n > 0 {
		newest = h.journal[n-1]
	}
	var nodes map[zone.Name]zone.Node
	if put != nil {
		nodes = maps.Clone(h.nodes)
	}
	s.mu.RUnlock()
	// put is the caller's code and may call back.
	for owner, n := range nodes {
		if err := ctx.Err(); err != nil {
			return store.State{}, false, fmt.Errorf("loading %s: %w", origin, err)
		}
		put(owner, n)
	}
	if serial, ok := store.ApexSerial(origin, apex); !ok || serial != state.Serial {
		return store.State{}, false, fmt.Errorf("zone %s: the SOA does not have the stored serial %d", origin, state.Serial)
	}
	if newest != nil {
		if serial, ok := store.SOASerial(newest.To); !ok || serial != state.Serial {
			return store.State{}, false, fmt.Errorf("zone %s: its journal does not end in the stored serial %d", origin, state.Serial)
		}
	}
	return state, true, nil
}

// Commit implements store.Store, apart from outliving the process.
func (s *Store) Commit(ctx context.Context, zones []store.ZoneCommit) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	if err := store.CheckCommit(zones); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	next := make([]store.State, len(zones))
	for i := range zones {
		h, found := s.zones[zones[i].Origin]
		if !found {
			h = new(held)
		}
		var err error
		if next[i], err = zones[i].Next(h.state, found); err != nil {
			return err
		}
	}
	for i, c := range zones {
		h, found := s.zones[c.Origin]
		if !found {
			h = &held{state: store.State{Oldest: 1}, nodes: make(map[zone.Name]zone.Node, len(c.Nodes))}
			s.zones[c.Origin] = h
		}
		for owner, n := range c.Nodes {
			if n == "" {
				delete(h.nodes, owner)
			} else {
				h.nodes[owner] = n
			}
		}
		h.journal = append(h.journal, c.Changesets...)
		// A copy, so that what was trimmed can be collected.
		if trimmed := int(next[i].Oldest - h.state.Oldest); trimmed > 0 {
			h.journal = slices.Clone(h.journal[trimmed:])
		}
		h.state = next[i]
	}
	return nil
}

// Journal implements store.Store.
func (s *Store) Journal(ctx context.Context, origin zone.Name, after, upto store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for at := after; ; {
			entries, err := s.entries(ctx, origin, at, upto)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			if len(entries) == 0 {
				return
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
				at = e.Position
			}
		}
	}
}

func (s *Store) entries(ctx context.Context, origin zone.Name, after, upto store.Position) ([]store.Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("reading the journal of %s: %w", origin, err)
	}
	h, found := s.zones[origin]
	if !found {
		return nil, nil
	}
	upto = min(upto, h.state.Last)
	if after >= upto {
		return nil, nil
	}
	if after+1 < h.state.Oldest {
		return nil, fmt.Errorf("zone %s: entry %d: %w", origin, after+1, store.ErrTrimmed)
	}
	n := min(upto-after, batch)
	entries := make([]store.Entry, 0, n)
	for p := after + 1; p <= after+n; p++ {
		entries = append(entries, store.Entry{Position: p, Changeset: h.journal[p-h.state.Oldest]})
	}
	return entries, nil
}

// Backup implements store.Store by refusing.
func (s *Store) Backup(context.Context, store.Writer) (int64, error) {
	return 0, fmt.Errorf("%w: a store in memory cannot be backed up", store.ErrRefused)
}

// Remove implements store.Store.
func (s *Store) Remove(_ context.Context, origin zone.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	delete(s.zones, origin)
	for _, f := range s.followers {
		delete(f.cursors, origin)
	}
	return nil
}

// Stats implements store.Store.
func (s *Store) Stats() store.Stats { return store.Stats{Kind: "memory"} }

// Close implements store.Store and drops everything.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.zones, s.followers = true, nil, nil
	return nil
}

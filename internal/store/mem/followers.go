package mem

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Cursors implements store.Store.
func (s *Store) Cursors(name string) (map[zone.Name]store.Position, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	cursors := make(map[zone.Name]store.Position)
	if f := s.followers[name]; f != nil {
		maps.Copy(cursors, f.cursors)
	}
	return cursors, nil
}

// Followers implements store.Store.
func (s *Store) Followers() ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	var names []string
	for name, f := range s.followers {
		if len(f.cursors) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Items implements store.Store.
func (s *Store) Items(name, from string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		keys, err := s.keys(name, from)
		if err != nil {
			yield(store.Item{}, err)
			return
		}
		for part := range slices.Chunk(keys, batch) {
			items, err := s.items(name, part)
			if err != nil {
				yield(store.Item{}, err)
				return
			}
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

func (s *Store) keys(name, from string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	var keys []string
	if f := s.followers[name]; f != nil {
		for k := range f.items {
			if k >= from {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// items reads those of the keys that are still there.
func (s *Store) items(name string, keys []string) ([]store.Item, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, store.ErrClosed
	}
	f := s.followers[name]
	if f == nil {
		return nil, nil
	}
	items := make([]store.Item, 0, len(keys))
	for _, k := range keys {
		if v, ok := f.items[k]; ok {
			items = append(items, store.Item{Key: k, Value: bytes.Clone(v)})
		}
	}
	return items, nil
}

// Advance implements store.Store.
func (s *Store) Advance(ctx context.Context, a store.Advance) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	if err := a.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	for origin, p := range a.Cursors {
		h, found := s.zones[origin]
		if !found || p > h.state.Last {
			return fmt.Errorf("%w: follower %s: zone %s has no position %d", store.ErrConflict, a.Follower, origin, p)
		}
	}
	f := s.followers[a.Follower]
	if f == nil {
		f = &follower{cursors: make(map[zone.Name]store.Position), items: make(map[string][]byte)}
		s.followers[a.Follower] = f
	}
	maps.Copy(f.cursors, a.Cursors)
	for _, k := range a.Delete {
		delete(f.items, k)
	}
	for _, it := range a.Put {
		f.items[it.Key] = append([]byte{}, it.Value...)
	}
	return nil
}

// Forget implements store.Store.
func (s *Store) Forget(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return store.ErrClosed
	}
	delete(s.followers, name)
	return nil
}

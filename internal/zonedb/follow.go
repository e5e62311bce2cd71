package zonedb

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// followers remembers every cursor, so that trimming a journal does not have to
// ask the store.
type followers struct {
	mu      sync.Mutex
	cursors map[string]map[zone.Name]store.Position // guarded by mu
}

func (f *followers) load(s store.Store) error {
	names, err := s.Followers()
	if err != nil {
		return fmt.Errorf("listing followers: %w", err)
	}
	f.cursors = make(map[string]map[zone.Name]store.Position)
	for _, name := range names {
		c, err := s.Cursors(name)
		if err != nil {
			return fmt.Errorf("reading the cursors of %s: %w", name, err)
		}
		f.cursors[name] = maps.Clone(c)
	}
	return nil
}

// slowest is the lowest cursor on a zone; ok is false when nobody follows it.
func (f *followers) slowest(origin zone.Name) (p store.Position, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.cursors {
		if at, has := c[origin]; has && (!ok || at < p) {
			p, ok = at, true
		}
	}
	return p, ok
}

func (f *followers) moved(name string, to map[zone.Name]store.Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cursors[name] == nil {
		f.cursors[name] = make(map[zone.Name]store.Position)
	}
	maps.Copy(f.cursors[name], to)
}

// Cursors returns where a follower is.
func (d *DB) Cursors(follower string) (map[zone.Name]store.Position, error) {
	return d.store.Cursors(follower)
}

// Items yields a follower's items from a key on.
func (d *DB) Items(follower, from string) iter.Seq2[store.Item, error] {
	return d.store.Items(follower, from)
}

// Advance makes a follower's progress durable.
func (d *DB) Advance(ctx context.Context, a store.Advance) error {
	// A new cursor holds the journal back from before it is durable on: trimmed
	// entries cannot be brought back, a cursor that failed is only too careful.
	d.followers.mu.Lock()
	_, known := d.followers.cursors[a.Follower]
	d.followers.mu.Unlock()
	if !known {
		d.followers.moved(a.Follower, a.Cursors)
	}
	if err := d.store.Advance(ctx, a); err != nil {
		return fmt.Errorf("advancing %s: %w", a.Follower, err)
	}
	d.followers.moved(a.Follower, a.Cursors)
	return nil
}

// Forget removes a follower for good, so that it holds no journal back.
func (d *DB) Forget(ctx context.Context, follower string) error {
	if err := d.store.Forget(ctx, follower); err != nil {
		return fmt.Errorf("forgetting %s: %w", follower, err)
	}
	d.followers.mu.Lock()
	delete(d.followers.cursors, follower)
	d.followers.mu.Unlock()
	return nil
}

// subscribers are the one-slot channels that tell followers to look again.
type subscribers struct {
	mu    sync.Mutex
	slots map[chan struct{}]bool // guarded by mu
}

// Subscribe returns a channel that gets a token when something was published
// since the last token was taken, and a function that ends it.
func (d *DB) Subscribe() (changed <-chan struct{}, cancel func()) {
	s := &d.subscribers
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		s.slots = make(map[chan struct{}]bool)
	}
	s.slots[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.slots, c)
	}
}

func (s *subscribers) kick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.slots {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

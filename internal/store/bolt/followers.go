package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Cursors implements store.Store.
func (s *Store) Cursors(follower string) (map[zone.Name]store.Position, error) {
	var cursors map[zone.Name]store.Position
	err := s.view(func(tx *bbolt.Tx) error {
		cursors = make(map[zone.Name]store.Position)
		b := tx.Bucket(bucketName(prefixCursors, follower))
		if b == nil {
			return nil
		}
		return b.ForEach(func(k, sealed []byte) error {
			origin, p, err := decodeCursor(k, sealed)
			cursors[origin] = p
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cursors of %s: %w", follower, err)
	}
	return cursors, nil
}

func decodeCursor(key, sealed []byte) (zone.Name, store.Position, error) {
	origin, err := decodeName(key)
	if err != nil {
		return "", 0, err
	}
	v, _, err := unseal(key, sealed)
	if err != nil {
		return "", 0, fmt.Errorf("cursor on %s: %w", origin, err)
	}
	p, err := decodePosition(v)
	if err != nil {
		return "", 0, fmt.Errorf("cursor on %s: %w", origin, err)
	}
	return origin, p, nil
}

// Followers implements store.Store.
func (s *Store) Followers() ([]string, error) {
	var names []string
	err := s.view(func(tx *bbolt.Tx) error {
		names = nil
		for _, name := range bucketsOf(tx, prefixCursors) {
			if k, _ := tx.Bucket(bucketName(prefixCursors, name)).Cursor().First(); k != nil {
				names = append(names, name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing followers: %w", err)
	}
	return names, nil
}

// Items implements store.Store.
func (s *Store) Items(follower, from string) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for next := from; ; {
			items, more, err := s.items(follower, next)
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
				next = it.Key + "\x00" // the least key after it
			}
			if err != nil {
				yield(store.Item{}, fmt.Errorf("items of %s: %w", follower, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

func (s *Store) items(follower, from string) (items []store.Item, more bool, err error) {
	err = s.view(func(tx *bbolt.Tx) error {
		items, more = nil, false
		b := tx.Bucket(bucketName(prefixItems, follower))
		if b == nil {
			return nil
		}
		size := 0
		c := b.Cursor()
		for k, sealed := c.Seek([]byte(from)); k != nil; k, sealed = c.Next() {
			if len(items) == batchEntries || size > batchOctets {
				more = true
				return nil
			}
			v, _, err := unseal(k, sealed)
			if err != nil {
				return fmt.Errorf("item %q: %w", k, err)
			}
			items = append(items, store.Item{Key: string(k), Value: bytes.Clone(v)})
			size += len(v)
		}
		return nil
	})
	return items, more, err
}

// Advance implements store.Store.
func (s *Store) Advance(ctx context.Context, a store.Advance) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	if err := a.Check(); err != nil {
		return err
	}
	if len(a.Cursors)+len(a.Put)+len(a.Delete) == 0 {
		return nil
	}
	return s.update(func(tx *bbolt.Tx) error {
		if err := moveCursors(tx, a); err != nil {
			return err
		}
		return changeItems(tx, a)
	})
}

func moveCursors(tx *bbolt.Tx, a store.Advance) error {
	if len(a.Cursors) == 0 {
		return nil
	}
	for origin, p := range a.Cursors {
		st, found, err := readState(tx, origin)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
		if !found || p > st.Last {
			return fmt.Errorf("%w: follower %s: zone %s has no position %d", store.ErrConflict, a.Follower, origin, p)
		}
	}
	b, err := tx.CreateBucketIfNotExists(bucketName(prefixCursors, a.Follower))
	if err != nil {
		return err
	}
	for origin, p := range a.Cursors {
		key := []byte(origin)
		if err := b.Put(key, seal(key, appendPosition(nil, p))); err != nil {
			return err
		}
	}
	return nil
}

func changeItems(tx *bbolt.Tx, a store.Advance) error {
	if len(a.Put)+len(a.Delete) == 0 {
		return nil
	}
	b, err := tx.CreateBucketIfNotExists(bucketName(prefixItems, a.Follower))
	if err != nil {
		return err
	}
	for _, k := range a.Delete {
		if err := b.Delete([]byte(k)); err != nil {
			return err
		}
	}
	for _, it := range a.Put {
		key := []byte(it.Key)
		if err := b.Put(key, seal(key, bytes.Clone(it.Value))); err != nil {
			return err
		}
	}
	return nil
}

// errNothing ends a transaction that turns out to have nothing to write.
var errNothing = errors.New("nothing to write")

// Forget implements store.Store.
func (s *Store) Forget(ctx context.Context, follower string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	err := s.update(func(tx *bbolt.Tx) error {
		cursors, items := bucketName(prefixCursors, follower), bucketName(prefixItems, follower)
		if tx.Bucket(cursors) == nil && tx.Bucket(items) == nil {
			return errNothing
		}
		if err := deleteBucket(tx, cursors); err != nil {
			return err
		}
		return deleteBucket(tx, items)
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

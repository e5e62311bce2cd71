package bolt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// denseFill is how full pages are packed that are written in order of their keys
// and hardly inserted into afterwards.
const denseFill = 0.9

// pair is a key with its sealed value; nil removes the key.
type pair struct{ key, value []byte }

// prepared is a ZoneCommit as octets, made before the writer's lock is taken.
type prepared struct {
	*store.ZoneCommit
	key     []byte // of the state
	nodes   []pair // in order of keys
	journal []pair
}

func prepare(c *store.ZoneCommit) prepared {
	p := prepared{ZoneCommit: c, key: []byte(c.Origin)}
	p.nodes = make([]pair, 0, len(c.Nodes))
	for owner, n := range c.Nodes {
		kv := pair{key: appendOwner(nil, c.Origin, owner)}
		if n != "" {
			kv.value = seal(kv.key, append(make([]byte, 0, len(n)+sumLength), n...))
		}
		p.nodes = append(p.nodes, kv)
	}
	slices.SortFunc(p.nodes, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	for i, cs := range c.Changesets {
		at := c.After + store.Position(i) + 1
		if at < c.TrimBefore {
			continue // it would be removed by the transaction that writes it
		}
		key := appendPosition(nil, at)
		p.journal = append(p.journal, pair{key, seal(key, cs.Encode())})
	}
	return p
}

// Commit implements store.Store.
func (s *Store) Commit(ctx context.Context, zones []store.ZoneCommit) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	if len(zones) == 0 {
		return nil
	}
	if err := store.CheckCommit(zones); err != nil {
		return err
	}
	parts := make([]prepared, len(zones))
	for i := range zones {
		parts[i] = prepare(&zones[i])
	}
	return s.update(func(tx *bbolt.Tx) error {
		for _, p := range parts {
			if err := p.write(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *prepared) write(tx *bbolt.Tx) error {
	old, found, err := readState(tx, p.Origin)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	next := old
	if next.State, err = p.Next(old.State, found); err != nil {
		return err
	}
	if !found {
		old.Oldest = 1
	}
	nodes, err := tx.CreateBucketIfNotExists(bucketName(prefixNodes, p.Origin))
	if err != nil {
		return err
	}
	if !found {
		nodes.FillPercent = denseFill
	}
	for _, kv := range p.nodes {
		if err := next.put(nodes, kv); err != nil {
			return fmt.Errorf("%w: zone %s, owner key %q: %w", store.ErrRefused, p.Origin, kv.key, err)
		}
	}
	journal, err := tx.CreateBucketIfNotExists(bucketName(prefixJournal, p.Origin))
	if err != nil {
		return err
	}
	journal.FillPercent = denseFill
	for at := old.Oldest; at < next.Oldest && at <= old.Last; at++ {
		if err := journal.Delete(appendPosition(nil, at)); err != nil {
			return err
		}
	}
	for _, kv := range p.journal {
		if err := journal.Put(kv.key, kv.value); err != nil {
			return fmt.Errorf("%w: zone %s: a changeset of %d octets: %w", store.ErrRefused, p.Origin, len(kv.value), err)
		}
	}
	return tx.Bucket(bucketZones).Put(p.key, seal(p.key, appendState(nil, next)))
}

// put changes one owner and keeps count and sum.
func (s *state) put(nodes *bbolt.Bucket, kv pair) error {
	if old := nodes.Get(kv.key); old != nil {
		// Unchecked, a sum that the disk has changed would be taken off the
		// zone's, and the damage would pass for health.
		_, sum, err := unseal(kv.key, old)
		if err != nil {
			return err
		}
		s.nodes--
		s.sum -= uint64(sum)
	}
	if kv.value == nil {
		return nodes.Delete(kv.key)
	}
	s.nodes++
	s.sum += uint64(sealSum(kv.value))
	return nodes.Put(kv.key, kv.value)
}

// readState reads a zone's state. Like all that reads inside a transaction it
// copies what it returns.
func readState(tx *bbolt.Tx, origin zone.Name) (state, bool, error) {
	key := []byte(origin)
	if len(key) == 0 {
		return state{}, false, nil
	}
	sealed := tx.Bucket(bucketZones).Get(key)
	if sealed == nil {
		return state{}, false, nil
	}
	v, _, err := unseal(key, sealed)
	if err != nil {
		return state{}, false, fmt.Errorf("state of zone %s: %w", origin, err)
	}
	st, err := decodeState(v)
	if err != nil {
		return state{}, false, fmt.Errorf("state of zone %s: %w", origin, err)
	}
	return st, true, nil
}

// Remove implements store.Store.
func (s *Store) Remove(ctx context.Context, origin zone.Name) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not begun: %w", err)
	}
	key := []byte(origin)
	return s.update(func(tx *bbolt.Tx) error {
		if err := tx.Bucket(bucketZones).Delete(key); err != nil {
			return err
		}
		for _, prefix := range []byte{prefixNodes, prefixJournal} {
			if err := deleteBucket(tx, bucketName(prefix, origin)); err != nil {
				return err
			}
		}
		for _, name := range bucketsOf(tx, prefixCursors) {
			if err := tx.Bucket(bucketName(prefixCursors, name)).Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
}

func deleteBucket(tx *bbolt.Tx, name []byte) error {
	if tx.Bucket(name) == nil {
		return nil
	}
	return tx.DeleteBucket(name)
}

// bucketsOf lists what the buckets of a kind are of.
func bucketsOf(tx *bbolt.Tx, prefix byte) []string {
	var names []string
	c := tx.Cursor()
	for k, v := c.Seek([]byte{prefix}); k != nil && k[0] == prefix; k, v = c.Next() {
		if v == nil && len(k) > 1 { // a bucket
			names = append(names, string(k[1:]))
		}
	}
	return names
}

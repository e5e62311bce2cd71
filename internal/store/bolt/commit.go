package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/wal"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Commit implements store.Store. An ordinary commit is one record of the log; one
// that creates a zone, brings the operator's records or is large goes to the
// database itself.
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
	c := commit{zones: zones, parts: make([]part, len(zones))}
	for i := range zones {
		z := &zones[i]
		p := &c.parts[i]
		*p = part{origin: z.Origin, after: z.After, nodes: z.Nodes}
		for k, cs := range z.Changesets {
			if z.After+store.Position(k)+1 < z.TrimBefore { // trimmed by the commit that brings it
				c.direct = true
				p.entries = append(p.entries, nil)
				continue
			}
			p.entries = append(p.entries, cs.Encode())
		}
		c.size += p.size()
		// Readers tell what is newer by the position, which this one leaves alone.
		c.direct = c.direct || z.Static != "" || len(z.Changesets) == 0
	}
	c.direct = c.direct || c.size > logMost/4
	for {
		h, err := s.current()
		if err != nil {
			return classify(err)
		}
		if err = s.commit(h, &c); !errors.Is(err, errRetired) {
			return err
		}
	}
}

// commit is a Commit on its way.
type commit struct {
	zones  []store.ZoneCommit
	parts  []part // their states are filled in by resolve
	size   int
	direct bool // past the log
}

// errRetired means that a handle was given up before anything was done with it.
var errRetired = errors.New("handle retired")

// commit writes to the log, or past it.
func (s *Store) commit(h *handle, c *commit) error {
	for !c.direct {
		err := s.record(h, c)
		switch {
		case errors.Is(err, errDirect):
			c.direct = true
		case errors.Is(err, errNoLog):
			if err := s.exclusive(h, func() error { return s.arm(h) }); err != nil {
				return err
			}
		case errors.Is(err, wal.ErrFull):
			if err := s.move(h, nil, nil, 0); err != nil {
				return err
			}
		default:
			return err
		}
	}
	return s.exclusive(h, func() error {
		if err := s.resolve(h, c); err != nil && !errors.Is(err, errDirect) {
			return err
		}
		err := s.settle(h, func(tx *bbolt.Tx) error {
			for i := range c.parts {
				if err := c.parts[i].write(tx, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			h.remember(c.parts)
		}
		return err
	})
}

// errDirect means that a commit has to go past the log, errNoLog that there is none
// yet.
var (
	errDirect = errors.New("not for the log")
	errNoLog  = errors.New("no log")
)

// record appends a commit to the log.
func (s *Store) record(h *handle, c *commit) error {
	h.writer.Lock()
	defer h.writer.Unlock()
	if h.failed.Load() {
		return errRetired
	}
	if err := s.resolve(h, c); err != nil {
		return err
	}
	if h.log == nil || !h.log.Present() {
		return errNoLog
	}
	if err := s.present(h); err != nil {
		return s.broken(h, err)
	}
	h.buf = h.buf[:0]
	for i := range c.parts {
		h.buf = appendPart(h.buf, &c.parts[i])
	}
	if !h.log.Fits(len(h.buf)) {
		s.mover.signal(s.mover.full) // which makes it larger
		h.buf = nil
		return errDirect
	}
	number, err := h.log.Append(h.buf)
	if errors.Is(err, wal.ErrFull) {
		return err
	}
	if err != nil {
		return s.broken(h, err)
	}
	h.pending.add(logged{number, c.parts, h.log.Mark()})
	h.remember(c.parts)
	s.mover.wake(h.log)
	return nil
}

// broken gives up a handle whose last write has an unknown outcome.
func (s *Store) broken(h *handle, err error) error {
	err = classify(fmt.Errorf("writing to %s: %w", s.path, err))
	s.fail(h, err)
	return err
}

// resolve checks a commit against the zones as they are and fills in the states that
// it leads to; errDirect when one of them is new. The caller holds h.writer.
func (s *Store) resolve(h *handle, c *commit) error {
	var direct error
	for i := range c.zones {
		z := &c.zones[i]
		st, found, err := s.known(h, z.Origin)
		if err != nil {
			return err
		}
		if c.parts[i].next, err = z.Next(st, found); err != nil {
			return err
		}
		if !found {
			direct = errDirect
		}
	}
	return direct
}

// known is a zone's state with all that the log holds. The caller holds h.writer.
func (s *Store) known(h *handle, origin zone.Name) (st store.State, found bool, err error) {
	if st, ok := h.states[origin]; ok {
		return st, true, nil
	}
	if t, ok := h.pending.tail(origin); ok {
		return t.state, true, nil
	}
	err = s.read(h, func(tx *bbolt.Tx) error {
		full, ok, err := readState(tx, origin)
		if err != nil {
			return fmt.Errorf("%w: %w", store.ErrRefused, err)
		}
		st, found = full.State, ok
		return nil
	})
	return st, found, err
}

// denseFill is how full pages are packed that are written in order of their keys
// and hardly inserted into afterwards.
const denseFill = 0.9

// pair is a key with its sealed value; nil removes the key.
type pair struct{ key, value []byte }

// write puts a part into the database. pause, if not nil, is called between the writes
// of many.
func (p *part) write(tx *bbolt.Tx, pause func()) error {
	old, found, err := readState(tx, p.origin)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
	if old.Last != p.after {
		return fmt.Errorf("%w: zone %s is at %d, the log goes on after %d", errDamaged, p.origin, old.Last, p.after)
	}
	next := old
	next.State = p.next
	if !found {
		old.Oldest = 1
	}
	nodes, err := tx.CreateBucketIfNotExists(bucketName(prefixNodes, p.origin))
	if err != nil {
		return err
	}
	if !found {
		nodes.FillPercent = denseFill
	}
	for _, kv := range p.pairs() {
		if pause != nil {
			pause()
		}
		if err := next.put(nodes, kv, found); err != nil {
			return fmt.Errorf("%w: zone %s, owner key %q: %w", store.ErrRefused, p.origin, kv.key, err)
		}
	}
	if err := p.writeJournal(tx, old.State, pause); err != nil {
		return err
	}
	key := []byte(p.origin)
	return tx.Bucket(bucketZones).Put(key, seal(key, appendState(nil, next)))
}

// pairs are the nodes in order of their keys.
func (p *part) pairs() []pair {
	pairs := make([]pair, 0, len(p.nodes))
	var room []byte // for many of them at once
	take := func(n int) []byte {
		if cap(room)-len(room) < n {
			room = make([]byte, 0, max(n, min(len(p.nodes)*n, 64<<10)))
		}
		piece := room[len(room) : len(room) : len(room)+n]
		room = room[:len(room)+n]
		return piece
	}
	for owner, n := range p.nodes {
		kv := pair{key: appendOwner(take(2*len(owner)), p.origin, owner)}
		if n != "" {
			kv.value = seal(kv.key, append(take(len(n)+sumLength), n...))
		}
		pairs = append(pairs, kv)
	}
	slices.SortFunc(pairs, func(a, b pair) int { return bytes.Compare(a.key, b.key) })
	return pairs
}

func (p *part) writeJournal(tx *bbolt.Tx, old store.State, pause func()) error {
	journal, err := tx.CreateBucketIfNotExists(bucketName(prefixJournal, p.origin))
	if err != nil {
		return err
	}
	journal.FillPercent = denseFill
	for at := old.Oldest; at < p.next.Oldest && at <= old.Last; at++ {
		if err := journal.Delete(appendPosition(nil, at)); err != nil {
			return err
		}
	}
	for i, e := range p.entries {
		at := p.after + store.Position(i) + 1
		if at < p.next.Oldest {
			continue
		}
		if pause != nil {
			pause()
		}
		key := appendPosition(nil, at)
		if err := journal.Put(key, seal(key, slices.Clip(e))); err != nil {
			return fmt.Errorf("%w: zone %s: a changeset of %d octets: %w", store.ErrRefused, p.origin, len(e), err)
		}
	}
	return nil
}

// put changes one owner and keeps count and sum. A bucket that is only being filled
// is not searched first.
func (s *state) put(nodes *bbolt.Bucket, kv pair, search bool) error {
	var old []byte
	if search {
		old = nodes.Get(kv.key)
	}
	if old != nil {
		// Not unsealed: what is damaged is replaced, by a commit that was acknowledged
		// when it was in the log. Where the sum is what the disk has changed, the
		// zone's is wrong from here on, and Load refuses it.
		if len(old) < sumLength {
			return fmt.Errorf("%w: value of %d octets", errDamaged, len(old))
		}
		s.nodes--
		s.sum -= uint64(sealSum(old))
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
	return s.alone(func(h *handle) error {
		err := s.settle(h, func(tx *bbolt.Tx) error { return removeZone(tx, origin) })
		if err == nil {
			delete(h.states, origin)
		}
		return err
	})
}

func removeZone(tx *bbolt.Tx, origin zone.Name) error {
	key := []byte(origin)
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

package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Zones implements store.Store.
func (s *Store) Zones() ([]zone.Name, error) {
	var names []zone.Name
	err := s.view(func(tx *bbolt.Tx) error {
		names = nil
		return tx.Bucket(bucketZones).ForEach(func(k, _ []byte) error {
			n, err := decodeName(k)
			names = append(names, n)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("listing zones: %w", err)
	}
	return names, nil
}

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, origin zone.Name, put func(zone.Name, zone.Node)) (st store.State, found bool, err error) {
	err = s.viewWith(func(h *handle) func(*bbolt.Tx) error {
		// What the log holds is asked for first: by the time it is gone from there, it
		// is in the database.
		changed, ahead, first, some := h.pending.nodes(origin)
		return func(tx *bbolt.Tx) error {
			full, ok, err := readState(tx, origin)
			if err != nil || !ok {
				return err
			}
			st, found = full.State, true
			if some = some && ahead.Last > full.Last && first <= full.Last+1; some {
				st = ahead
			} else {
				changed = nil
			}
			if put != nil {
				if err := loadNodes(ctx, tx, origin, full, changed, put); err != nil {
					return err
				}
			}
			if err := checkApex(tx, origin, full); err != nil {
				return err
			}
			return checkJournal(tx, origin, full)
		}
	})
	if err != nil {
		return store.State{}, false, fmt.Errorf("reading zone %s from %s: %w", origin, s.path, err)
	}
	if h := s.working(); put != nil && h != nil {
		s.unmap(h)
	}
	return st, found, nil
}

// loadNodes puts every owner and adds them up; those that changed are put as they are
// now. It runs put under call, once for all of them, because a deferred function for
// each is felt at a million.
func loadNodes(ctx context.Context, tx *bbolt.Tx, origin zone.Name, want state, changed map[zone.Name]zone.Node, put func(zone.Name, zone.Node)) (err error) {
	b := tx.Bucket(bucketName(prefixNodes, origin))
	if b == nil {
		return fmt.Errorf("%w: its records are gone", errDamaged)
	}
	var got state
	theirs := false
	defer func() {
		if !theirs {
			return
		}
		if r := recover(); r != nil { // else put ended the goroutine
			panic(callersPanic{r})
		}
	}()
	c := b.Cursor()
	for k, sealed := c.First(); k != nil; k, sealed = c.Next() {
		if got.nodes%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		owner, err := decodeOwner(origin, k)
		if err != nil {
			return err
		}
		v, sum, err := unseal(k, sealed)
		if err != nil {
			return fmt.Errorf("records of %s: %w", owner, err)
		}
		n, err := zone.DecodeNode(owner, v)
		if err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		got.nodes++
		got.sum += uint64(sum)
		if len(changed) > 0 {
			if _, is := changed[owner]; is {
				continue
			}
		}
		theirs = true
		put(owner, n)
		theirs = false
	}
	if got.nodes != want.nodes {
		return fmt.Errorf("%w: it has %d names, its state says %d", errDamaged, got.nodes, want.nodes)
	}
	if got.sum != want.sum {
		return fmt.Errorf("%w: its %d names are not those that were written last", errDamaged, got.nodes)
	}
	theirs = true
	for owner, n := range changed {
		if n != "" {
			put(owner, n)
		}
	}
	theirs = false
	return nil
}

func checkApex(tx *bbolt.Tx, origin zone.Name, want state) error {
	b := tx.Bucket(bucketName(prefixNodes, origin))
	if b == nil {
		return fmt.Errorf("%w: its records are gone", errDamaged)
	}
	key := appendOwner(nil, origin, origin)
	v, _, err := unseal(key, b.Get(key))
	if err != nil {
		return fmt.Errorf("records of its apex: %w", err)
	}
	apex, err := zone.DecodeNode(origin, v)
	if err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	serial, ok := store.ApexSerial(origin, apex)
	if !ok {
		return fmt.Errorf("%w: it has no SOA", errDamaged)
	}
	if serial != want.Serial {
		return fmt.Errorf("%w: its SOA has serial %d, its state %d", errDamaged, serial, want.Serial)
	}
	return nil
}

// checkJournal looks at the ends of the journal; Journal checks the rest.
func checkJournal(tx *bbolt.Tx, origin zone.Name, want state) error {
	b := tx.Bucket(bucketName(prefixJournal, origin))
	if b == nil {
		return fmt.Errorf("%w: its journal is gone", errDamaged)
	}
	c := b.Cursor()
	first, _ := c.First()
	if want.Oldest > want.Last {
		if first != nil {
			return fmt.Errorf("%w: its journal should be empty", errDamaged)
		}
		return nil
	}
	if !bytes.Equal(first, appendPosition(nil, want.Oldest)) {
		return fmt.Errorf("%w: its journal does not begin at %d", errDamaged, want.Oldest)
	}
	last, sealed := c.Last()
	if !bytes.Equal(last, appendPosition(nil, want.Last)) {
		return fmt.Errorf("%w: its journal does not end at %d", errDamaged, want.Last)
	}
	v, _, err := unseal(last, sealed)
	if err != nil {
		return fmt.Errorf("entry %d of its journal: %w", want.Last, err)
	}
	cs, err := zone.DecodeChangeset(origin, bytes.Clone(v))
	if err != nil {
		return fmt.Errorf("%w: entry %d of its journal: %w", errDamaged, want.Last, err)
	}
	if serial, ok := store.SOASerial(cs.To); !ok || serial != want.Serial {
		return fmt.Errorf("%w: its journal ends at serial %d, its state is at %d", errDamaged, serial, want.Serial)
	}
	return nil
}

// A sequence reads this much in one transaction.
const (
	batchEntries = 256
	batchOctets  = 1 << 20
)

// Journal implements store.Store.
func (s *Store) Journal(ctx context.Context, origin zone.Name, after, upto store.Position) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for at := after; ; {
			values, err := s.entries(ctx, origin, at, upto)
			for _, v := range values {
				at++
				cs, err := zone.DecodeChangeset(origin, v)
				if err != nil {
					yield(store.Entry{}, fmt.Errorf("journal of %s, entry %d: %w: %w", origin, at, errDamaged, err))
					return
				}
				if !yield(store.Entry{Position: at, Changeset: cs}, nil) {
					return
				}
			}
			if err != nil {
				yield(store.Entry{}, fmt.Errorf("journal of %s: %w", origin, err))
				return
			}
			if len(values) == 0 {
				return
			}
		}
	}
}

// entries copies the values of the next entries after a position. With an error
// come those in front of it.
func (s *Store) entries(ctx context.Context, origin zone.Name, after, upto store.Position) (values [][]byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.viewWith(func(h *handle) func(*bbolt.Tx) error {
		t, ahead := h.pending.tail(origin) // before the database: see Load
		return func(tx *bbolt.Tx) error {
			values = nil
			st, found, err := readState(tx, origin)
			if err != nil || !found {
				return err
			}
			inDatabase := st.Last
			// A zone that was removed meanwhile and made again is another.
			if ahead = ahead && t.state.Last > st.Last && t.first <= st.Last+1; ahead {
				st.State = t.state
			}
			upto := min(upto, st.Last)
			if after >= upto {
				return nil
			}
			if after+1 < st.Oldest {
				return fmt.Errorf("entry %d: %w", after+1, store.ErrTrimmed)
			}
			if values, err = stored(tx, origin, after, min(upto, inDatabase)); err != nil || !ahead {
				return err
			}
			if next := after + store.Position(len(values)) + 1; next > inDatabase {
				for ; next <= upto && len(values) < batchEntries; next++ {
					values = append(values, t.entries[next-t.first])
				}
			}
			return nil
		}
	})
	return values, err
}

// stored copies a batch of a journal's entries from the database.
func stored(tx *bbolt.Tx, origin zone.Name, after, upto store.Position) (values [][]byte, err error) {
	if after >= upto {
		return nil, nil
	}
	b := tx.Bucket(bucketName(prefixJournal, origin))
	if b == nil {
		return nil, fmt.Errorf("%w: it is gone", errDamaged)
	}
	c, want, size := b.Cursor(), after+1, 0
	for k, sealed := c.Seek(appendPosition(nil, want)); want <= upto; k, sealed = c.Next() {
		if len(values) == batchEntries || size > batchOctets {
			break
		}
		if !bytes.Equal(k, appendPosition(nil, want)) {
			return values, fmt.Errorf("%w: entry %d is missing", errDamaged, want)
		}
		v, _, err := unseal(k, sealed)
		if err != nil {
			return values, fmt.Errorf("entry %d: %w", want, err)
		}
		values = append(values, bytes.Clone(v))
		size += len(v)
		want++
	}
	return values, nil
}

// Backup implements store.Store. The copy has no log, and the log that is used from
// then on is another one, so that it cannot be taken for the copy's. While it runs,
// pages that commits free are not used again: the file grows by what is written
// meanwhile.
func (s *Store) Backup(ctx context.Context, w store.Writer) (n int64, err error) {
	var h *handle
	var tx *bbolt.Tx
	err = s.alone(func(current *handle) error {
		h = current
		if err := s.disarm(h); err != nil {
			return err
		}
		return guard(func() error {
			tx, err = h.db.Begin(false)
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("copying %s: %w", s.path, err)
	}
	bw := &backupWriter{ctx: ctx, s: s, w: w}
	err = guard(func() error {
		defer tx.Rollback()
		if sized, ok := w.(store.Sized); ok {
			sized.Expect(tx.Size())
		}
		n, err = tx.WriteTo(bw)
		return err
	})
	var p *panicError
	if errors.As(err, &p) {
		s.retire(h, err)
	}
	if bw.err != nil {
		err = bw.err
	}
	if err != nil {
		return n, fmt.Errorf("copying %s: %w", s.path, err)
	}
	return n, nil
}

// backupWriter ends a copy that is no longer wanted, and keeps apart what went
// wrong with the writer.
type backupWriter struct {
	ctx context.Context
	s   *Store
	w   store.Writer
	err error
}

func (b *backupWriter) Write(p []byte) (n int, err error) {
	switch {
	case b.ctx.Err() != nil:
		b.err = b.ctx.Err()
	case b.s.failed.Load():
		b.err = errors.New("the store is recovering from a failed write")
	case b.s.closing.Load():
		b.err = store.ErrClosed // Close waits for us
	default:
		call(func() { n, b.err = b.w.Write(p) })
	}
	return n, b.err
}

// unmapEvery is after how many commits the pages they touched are let go of.
const unmapEvery = 512

// relieve is called when so many commits have reached the database.
func (s *Store) relieve(h *handle, commits int) {
	if s.sinceUnmap.Add(int32(commits)) >= unmapEvery {
		s.sinceUnmap.Store(0)
		s.unmap(h)
	}
}

// unmap takes the pages of the file out of the process. Reading a million hosts
// touches every page of the mapping, and they would count as its memory for ever.
func (s *Store) unmap(h *handle) {
	// The mapping cannot move during a transaction. An error here shows again
	// at the next call that matters.
	_ = s.read(h, func(tx *bbolt.Tx) error {
		unmapPages(tx.DB().Info().Data, tx.Size())
		return nil
	})
}

// sealSum reads the checksum off a sealed value.
func sealSum(sealed []byte) uint32 {
	return binary.BigEndian.Uint32(sealed[len(sealed)-sumLength:])
}

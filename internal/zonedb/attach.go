package zonedb

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Spec is what the operator says of one zone.
type Spec struct {
	Origin zone.Name
	// Static are the operator's own records: a zone file's, or an apex made from
	// name servers. Nil when the zone is seeded.
	Static []zone.RRset
	// Read, if not nil, reads Static when it is needed, each time with the same
	// result: when Digest is not that of what the zone has.
	Read func() ([]zone.RRset, error)
	// Digest names the records that Read reads: the same digest, the same records.
	Digest string
	// Seed reads the first records of a zone that the store does not have yet.
	Seed   func() ([]zone.RRset, error)
	Source string // "file", "seed" or "ns", for the journal
	Limits zone.Limits
	// Journal bounds the changesets kept; 0 means DefaultJournal. It counts once
	// the zone is merged, or was not in memory before.
	Journal int
}

// Merged is what merging a Spec did.
type Merged struct {
	Result
	Created bool
	// TakenOver are names that updates had made and the operator's file now holds.
	TakenOver []zone.Name
}

// Attach loads the zones that are not in memory yet, creates those that the store
// does not have, and counts a user of each. It does not merge Static into zones
// that existed: see Merge. On an error nothing stays attached by this call, and when
// Read failed no zone was created.
func (d *DB) Attach(ctx context.Context, specs []Spec) (created []zone.Name, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var attached []zone.Name
	defer func() {
		if err != nil {
			d.detach(attached)
		}
	}()
	var missing []Spec
	for _, s := range specs {
		z := d.Zone(s.Origin)
		if z == nil {
			fresh, found, err := d.load(ctx, s.Origin)
			if err != nil {
				return nil, fmt.Errorf("loading zone %s: %w", s.Origin, err)
			}
			z = fresh
			z.keep = s.keep()
			d.addZone(z)
			if found {
				d.opts.Observer.Published(z.origin, z.Version(), len(z.journal.entries))
			} else if err := s.read(); err != nil {
				d.removeZone(s.Origin)
				return nil, err
			} else {
				missing = append(missing, s)
			}
		}
		z.refs++
		attached = append(attached, s.Origin)
	}
	for _, s := range missing {
		z := d.Zone(s.Origin)
		if err := d.create(ctx, z, s); err != nil {
			return nil, fmt.Errorf("creating zone %s: %w", s.Origin, err)
		}
		d.opts.Observer.Published(z.origin, z.Version(), len(z.journal.entries))
		created = append(created, s.Origin)
	}
	return created, nil
}

// Detach ends one use of each zone. A zone without users leaves memory; the
// store keeps it.
func (d *DB) Detach(origins []zone.Name) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.detach(origins)
}

func (d *DB) detach(origins []zone.Name) {
	for _, o := range origins {
		if z := d.Zone(o); z != nil {
			if z.refs--; z.refs == 0 {
				d.removeZone(o)
			}
		}
	}
}

// Merge brings the static part of attached zones to what the operator says, each
// difference as one changeset, all in one transaction or none.
func (d *DB) Merge(ctx context.Context, specs []Spec) ([]Merged, error) {
	merged := make([]Merged, len(specs))
	parts := make([]part, len(specs))
	for i, s := range specs {
		z := d.Zone(s.Origin)
		if z == nil {
			return nil, fmt.Errorf("%s: %w", s.Origin, ErrNoZone)
		}
		parts[i] = mergePart(z, s, &merged[i])
	}
	if err := d.Prepare(specs); err != nil { // here, so that the writer need not read
		return nil, err
	}
	results, err := d.submit(ctx, parts)
	if err != nil {
		return nil, err
	}
	for i := range merged {
		merged[i].Result = results[i]
	}
	return merged, nil
}

// Prepare has the records read that differ from those of attached zones. Its errors
// are those of Read.
func (d *DB) Prepare(specs []Spec) error {
	for i := range specs {
		s := &specs[i]
		if z := d.Zone(s.Origin); z != nil && z.merged() == s.digest() {
			continue
		}
		if err := s.read(); err != nil {
			return err
		}
	}
	return nil
}

// Check plans what Merge would do and changes nothing.
func (d *DB) Check(specs []Spec) error {
	now := uint32(d.opts.Now().Unix())
	for _, s := range specs {
		z := d.Zone(s.Origin)
		if z == nil {
			return fmt.Errorf("%s: %w", s.Origin, ErrNoZone)
		}
		p := mergePart(z, s, new(Merged))
		if p.static == z.merged() {
			continue
		}
		if _, err := p.plan(z.Version().Candidate(), now); err != nil {
			return fmt.Errorf("zone %s: %w", s.Origin, err)
		}
	}
	return nil
}

func mergePart(z *Zone, s Spec, m *Merged) part {
	return part{
		zone:   z,
		static: s.digest(),
		keep:   s.keep(),
		plan: func(c *zone.Candidate, now uint32) (*zone.Changeset, error) {
			static, err := s.records()
			if err != nil {
				return nil, err
			}
			u, takenOver := zone.StaticUpdate(c, static)
			m.TakenOver = takenOver
			u.Limits = s.Limits
			u.Cause = zone.Cause{Source: s.Source, Unix: int64(now)}
			return c.Plan(u, now)
		},
	}
}

// create makes the first version of a zone.
func (d *DB) create(ctx context.Context, z *Zone, s Spec) error {
	p := mergePart(z, s, new(Merged))
	if s.Seed != nil {
		seed, err := s.Seed()
		if err != nil {
			return err
		}
		p.plan = func(c *zone.Candidate, now uint32) (*zone.Changeset, error) {
			u := zone.SeedUpdate(seed)
			u.Limits = s.Limits
			u.Cause = zone.Cause{Source: s.Source, Unix: int64(now)}
			return c.Plan(u, now)
		}
	}
	_, err := d.submit(ctx, []part{p})
	return err
}

func (s *Spec) keep() int {
	if s.Journal > 0 {
		return s.Journal
	}
	return DefaultJournal
}

func (s *Spec) records() ([]zone.RRset, error) {
	if s.Read == nil {
		return s.Static, nil
	}
	return s.Read()
}

// read has Read done, which remembers what it read.
func (s *Spec) read() error {
	_, err := s.records()
	return err
}

// digest names the static records, so that those that have not changed are recognised.
func (s *Spec) digest() string {
	if s.Digest != "" {
		return s.Digest
	}
	h := sha256.New()
	var b []byte
	field := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, set := range s.Static {
		b = b[:0]
		field(string(set.Owner))
		b = binary.BigEndian.AppendUint16(b, set.Type)
		b = binary.BigEndian.AppendUint32(b, set.TTL)
		b = binary.AppendUvarint(b, uint64(set.Len()))
		for d := range set.Data() {
			field(d)
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

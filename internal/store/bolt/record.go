package bolt

import (
	"encoding/binary"
	"fmt"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// A record of the log holds one Commit: the parts of its zones, one after the other.
// A part, where numbers without a size are uvarints and texts are preceded by their
// length:
//
//	origin          text
//	after           number
//	state after it  text, as appendState writes it, with nodes and sum 0
//	entries         count, then each changeset as a text
//	nodes           count, then owner and node as texts; an empty node removes

// part is one zone's part of a commit, or of several that follow each other.
type part struct {
	origin  zone.Name
	after   store.Position // the zone's Last before it
	next    store.State    // the zone's state after it
	entries [][]byte       // changesets encoded, of positions after+1 and on
	nodes   map[zone.Name]zone.Node
}

func appendPart(b []byte, p *part) []byte {
	b = appendText(b, p.origin)
	b = binary.AppendUvarint(b, uint64(p.after))
	b = appendText(b, appendState(nil, state{State: p.next}))
	b = binary.AppendUvarint(b, uint64(len(p.entries)))
	for _, e := range p.entries {
		b = appendText(b, e)
	}
	b = binary.AppendUvarint(b, uint64(len(p.nodes)))
	for owner, n := range p.nodes {
		b = appendText(b, owner)
		b = appendText(b, n)
	}
	return b
}

func appendText[T ~string | ~[]byte](b []byte, t T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(t))), t...)
}

// size is about what appendPart writes.
func (p *part) size() int {
	n := 128 + len(p.origin) + len(p.next.Static)
	for _, e := range p.entries {
		n += 4 + len(e)
	}
	for owner, node := range p.nodes {
		n += 4 + len(owner) + len(node)
	}
	return n
}

// decodeRecord reads the parts of a record. What it accepts fits together as far as can
// be told without the zones: owners are names in their zone, nodes are nodes, the
// entries lead from after to the state.
func decodeRecord(b []byte) ([]part, error) {
	var parts []part
	for r := (reader{b: b}); len(r.b) > 0; {
		p, err := r.part()
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: a record without a zone", errDamaged)
	}
	return parts, nil
}

// reader takes a record apart; bad is set at the first thing that is not there.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) text() []byte {
	n := r.number()
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	t := r.b[:n:n]
	r.b = r.b[n:]
	return t
}

func (r *reader) part() (part, error) {
	origin, after, stored := r.text(), r.number(), r.text()
	if r.bad {
		return part{}, fmt.Errorf("%w: a record that is cut off", errDamaged)
	}
	p := part{after: store.Position(after)}
	var err error
	if p.origin, err = decodeName(origin); err != nil {
		return part{}, err
	}
	next, err := decodeState(stored)
	if err != nil {
		return part{}, err
	}
	p.next = next.State
	count := r.number()
	if r.bad || p.next.Last-p.after != store.Position(count) || p.next.Last < p.after {
		return part{}, fmt.Errorf("%w: %d changesets of %s after %d lead to %d", errDamaged, count, p.origin, p.after, p.next.Last)
	}
	for range count {
		e := r.text()
		if r.bad {
			return part{}, fmt.Errorf("%w: a record that is cut off", errDamaged)
		}
		if _, err := zone.DecodeChangeset(p.origin, e); err != nil {
			return part{}, fmt.Errorf("%w: %w", errDamaged, err)
		}
		p.entries = append(p.entries, e)
	}
	return p, r.nodes(&p)
}

func (r *reader) nodes(p *part) error {
	count := r.number()
	p.nodes = make(map[zone.Name]zone.Node)
	for range count {
		name, octets := r.text(), r.text()
		if r.bad {
			break
		}
		owner, err := decodeName(name)
		if err != nil {
			return err
		}
		if !owner.Within(p.origin) {
			return fmt.Errorf("%w: %s is not in %s", errDamaged, owner, p.origin)
		}
		if p.nodes[owner], err = zone.DecodeNode(owner, octets); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
	if r.bad {
		return fmt.Errorf("%w: a record that is cut off", errDamaged)
	}
	if apex, touched := p.nodes[p.origin]; touched {
		if serial, ok := store.ApexSerial(p.origin, apex); !ok || serial != p.next.Serial {
			return fmt.Errorf("%w: the SOA of %s is not at serial %d", errDamaged, p.origin, p.next.Serial)
		}
	}
	return nil
}

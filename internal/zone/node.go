package zone

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Node is all RRsets of one owner in one string: what a Version holds and a
// store keeps. RRsets are in ascending order of type; the empty Node is an owner
// without records. Format, per RRset: type (2 octets), flags (1; bit 0 static),
// TTL (4), length of data (uvarint), data as in RRset.
type Node string

// DecodeNode checks that octets read from a store are a Node of the given owner,
// rdata included, so that everything after may rely on it.
func DecodeNode(owner Name, b []byte) (Node, error) {
	n, last := Node(b), -1
	for rest := n; rest != ""; {
		set, tail, ok := rest.cut(owner)
		switch {
		case !ok:
			return "", fmt.Errorf("node of %s: truncated RRset", owner)
		case int(set.Type) <= last || set.Empty():
			return "", fmt.Errorf("node of %s: RRset %s out of order or empty", owner, TypeString(set.Type))
		case !IsData(set.Type):
			return "", fmt.Errorf("node of %s: %s is not a type of records in a zone", owner, TypeString(set.Type))
		case rest[2] > 1 || len(rest)-len(tail) != encodedLen(set):
			return "", fmt.Errorf("node of %s: RRset %s has a bad flag or length", owner, TypeString(set.Type))
		}
		if err := checkData(set); err != nil {
			return "", fmt.Errorf("node of %s: %w", owner, err)
		}
		last, rest = int(set.Type), tail
	}
	return n, nil
}

// checkData verifies framing, order and rdata of an RRset read from outside.
func checkData(set RRset) error {
	if len(set.data) > MaxRRsetData {
		return fmt.Errorf("%s: RRset of %d octets, at most %d", TypeString(set.Type), len(set.data), MaxRRsetData)
	}
	prev, first := "", true
	for d := set.data; d != ""; {
		if len(d) < 2 || len(d) < 2+be16(d) {
			return fmt.Errorf("%s: truncated record", TypeString(set.Type))
		}
		l := be16(d)
		rdata := d[2 : 2+l]
		if !first && rdata <= prev {
			return fmt.Errorf("%s: records out of order", TypeString(set.Type))
		}
		if err := checkRdata(set.Type, rdata); err != nil {
			return err
		}
		prev, first, d = rdata, false, d[2+l:]
	}
	return nil
}

// encodedLen is how many octets an RRset takes in a Node.
func encodedLen(set RRset) int {
	n := 7 + 1 + len(set.data)
	for l := len(set.data); l >= 0x80; l >>= 7 {
		n++
	}
	return n
}

// cut takes the first RRset off n.
func (n Node) cut(owner Name) (set RRset, rest Node, ok bool) {
	if len(n) < 8 {
		return RRset{}, "", false
	}
	size, k := uvarint(string(n[7:]))
	if k <= 0 || size > uint64(len(n)-7-k) {
		return RRset{}, "", false
	}
	end := 7 + k + int(size)
	return RRset{
		Owner:  owner,
		Type:   uint16(be16(string(n))),
		Static: n[2]&1 != 0,
		TTL:    uint32(n[3])<<24 | uint32(n[4])<<16 | uint32(n[5])<<8 | uint32(n[6]),
		data:   string(n[7+k : end]),
	}, n[end:], true
}

// RRsets yields the RRsets of owner held in n, in ascending order of type.
func (n Node) RRsets(owner Name) iter.Seq[RRset] {
	return func(yield func(RRset) bool) {
		for n != "" {
			set, rest, ok := n.cut(owner)
			if !ok || !yield(set) {
				return
			}
			n = rest
		}
	}
}

// RRset returns the RRset of one type.
func (n Node) RRset(owner Name, typ uint16) (RRset, bool) {
	for n != "" {
		set, rest, ok := n.cut(owner)
		if !ok || set.Type > typ {
			break
		}
		if set.Type == typ {
			return set, true
		}
		n = rest
	}
	return RRset{}, false
}

// with returns n with the RRset of set's type replaced; an empty set removes it.
func (n Node) with(set RRset) Node {
	b := make([]byte, 0, len(n)+encodedLen(set))
	put := func(s RRset) {
		if s.Empty() {
			return
		}
		b = binary.BigEndian.AppendUint16(b, s.Type)
		flags := byte(0)
		if s.Static {
			flags = 1
		}
		b = append(b, flags)
		b = binary.BigEndian.AppendUint32(b, s.TTL)
		b = binary.AppendUvarint(b, uint64(len(s.data)))
		b = append(b, s.data...)
	}
	done := false
	for old := range n.RRsets(set.Owner) {
		if !done && old.Type >= set.Type {
			put(set)
			done = true
		}
		if old.Type != set.Type {
			put(old)
		}
	}
	if !done {
		put(set)
	}
	return Node(b)
}

// NewNode makes a Node of RRsets that share an owner and differ in type.
func NewNode(sets ...RRset) Node {
	var n Node
	for _, s := range sets {
		n = n.with(s)
	}
	return n
}

// uvarint is binary.Uvarint for a string.
func uvarint(s string) (uint64, int) {
	var x uint64
	for i := 0; i < len(s) && i < 5; i++ {
		if b := s[i]; b < 0x80 {
			return x | uint64(b)<<(7*i), i + 1
		} else {
			x |= uint64(b&0x7f) << (7 * i)
		}
	}
	return 0, 0
}

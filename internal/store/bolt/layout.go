package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// formatVersion is the version of the layout this program writes. A file with a
// newer one is refused. One of version 1, which had no log, becomes version 2
// with the first log that belongs to it, so that a program which knows nothing of
// logs does not serve it without.
const formatVersion = 2

var (
	bucketFormat = []byte("ddns")
	bucketZones  = []byte("zones")
	keyFormat    = []byte("format")
)

// First octets of the names of buckets of which there are many.
const (
	prefixNodes   = 'n'
	prefixJournal = 'j'
	prefixCursors = 'c'
	prefixItems   = 'i'
)

func bucketName[S ~string](prefix byte, of S) []byte {
	return append([]byte{prefix}, of...)
}

// errDamaged is wrapped by everything that is wrong with stored octets.
var errDamaged = errors.New("damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumLength = 4

// seal appends the checksum of key and value to value.
func seal(key, value []byte) []byte {
	sum := crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, value)
	return binary.BigEndian.AppendUint32(value, sum)
}

// unseal takes the checksum off a stored value again and checks it. The result
// shares memory with sealed.
func unseal(key, sealed []byte) (value []byte, sum uint32, err error) {
	n := len(sealed) - sumLength
	if n < 0 {
		return nil, 0, fmt.Errorf("%w: value of %d octets", errDamaged, len(sealed))
	}
	value, sum = sealed[:n], binary.BigEndian.Uint32(sealed[n:])
	if crc32.Update(crc32.Update(0, castagnoli, key), castagnoli, value) != sum {
		return nil, 0, fmt.Errorf("%w: wrong checksum", errDamaged)
	}
	return value, sum, nil
}

// state is what a zone's entry in the bucket of zones holds.
type state struct {
	store.State
	// nodes counts the owners and sum adds up the checksums of their values, so
	// that a page which was lost, or is an older one's, is missed at Load.
	nodes, sum uint64
}

// appendState writes last, oldest, serial, nodes, sum, then static to the end.
func appendState(b []byte, s state) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(s.Last))
	b = binary.BigEndian.AppendUint64(b, uint64(s.Oldest))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Serial))
	b = binary.BigEndian.AppendUint64(b, s.nodes)
	b = binary.BigEndian.AppendUint64(b, s.sum)
	return append(b, s.Static...)
}

func decodeState(b []byte) (state, error) {
	const fixed = 8 + 8 + 4 + 8 + 8
	if len(b) < fixed {
		return state{}, fmt.Errorf("%w: state of %d octets", errDamaged, len(b))
	}
	s := state{
		State: store.State{
			Last:   store.Position(binary.BigEndian.Uint64(b)),
			Oldest: store.Position(binary.BigEndian.Uint64(b[8:])),
			Serial: zone.Serial(binary.BigEndian.Uint32(b[16:])),
			Static: string(b[fixed:]),
		},
		nodes: binary.BigEndian.Uint64(b[20:]),
		sum:   binary.BigEndian.Uint64(b[28:]),
	}
	// Positions never wrap; no journal is ever that long.
	if s.Oldest == 0 || s.Oldest-1 > s.Last || s.Last == math.MaxUint64 {
		return state{}, fmt.Errorf("%w: journal from %d to %d", errDamaged, s.Oldest, s.Last)
	}
	return s, nil
}

func appendPosition(b []byte, p store.Position) []byte {
	return binary.BigEndian.AppendUint64(b, uint64(p))
}

func decodePosition(b []byte) (store.Position, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: position of %d octets", errDamaged, len(b))
	}
	return store.Position(binary.BigEndian.Uint64(b)), nil
}

// decodeName reads a canonical name in wire form.
func decodeName(b []byte) (zone.Name, error) {
	if len(b) > zone.MaxNameLength {
		return "", fmt.Errorf("%w: name of %d octets", errDamaged, len(b))
	}
	for i := 0; i < len(b); {
		l := int(b[i])
		if l == 0 && i == len(b)-1 {
			return zone.Name(b), nil
		}
		if l == 0 || l > 63 || i+1+l > len(b) {
			break
		}
		for _, c := range b[i+1 : i+1+l] {
			if 'A' <= c && c <= 'Z' {
				return "", fmt.Errorf("%w: name %q not in lower case", errDamaged, b)
			}
		}
		i += 1 + l
	}
	return "", fmt.Errorf("%w: %q is not a name", errDamaged, b)
}

// Owner keys: the labels below the origin from the top down, each ended by
// keyEnd; the octets keyEnd and keyEscape inside a label are escaped. The origin
// itself, having no label, is the lone keyEnd, which no other owner's key is.
const (
	keyEnd    = 0x00
	keyEscape = 0x01 // followed by the octet plus one
)

// appendOwner writes the key of an owner, which must be in the zone.
func appendOwner(b []byte, origin, owner zone.Name) []byte {
	if owner == origin {
		return append(b, keyEnd)
	}
	var starts [128]uint8
	n := 0
	for i := 0; i < len(owner)-len(origin); i += 1 + int(owner[i]) {
		starts[n] = uint8(i)
		n++
	}
	for n--; n >= 0; n-- {
		at := int(starts[n])
		for _, c := range []byte(owner[at+1 : at+1+int(owner[at])]) {
			if c <= keyEscape {
				b = append(b, keyEscape, c+1)
			} else {
				b = append(b, c)
			}
		}
		b = append(b, keyEnd)
	}
	return b
}

// decodeOwner reads what appendOwner wrote.
func decodeOwner(origin zone.Name, key []byte) (zone.Name, error) {
	if len(key) == 1 && key[0] == keyEnd {
		return origin, nil
	}
	// The labels come in the wrong order, so the name is filled from its end.
	var wire [zone.MaxNameLength]byte
	at := len(wire) - len(origin)
	copy(wire[at:], origin)
	var label [63]byte
	n := 0
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case c == keyEnd:
			if n == 0 || at < 1+n {
				return "", fmt.Errorf("%w: owner key %q", errDamaged, key)
			}
			at -= n
			copy(wire[at:], label[:n])
			at--
			wire[at] = byte(n)
			n = 0
			continue
		case c == keyEscape:
			i++
			if i == len(key) || key[i] == 0 || key[i] > keyEscape+1 {
				return "", fmt.Errorf("%w: owner key %q", errDamaged, key)
			}
			c = key[i] - 1
		case 'A' <= c && c <= 'Z':
			return "", fmt.Errorf("%w: owner key %q not in lower case", errDamaged, key)
		}
		if n == len(label) {
			return "", fmt.Errorf("%w: owner key %q", errDamaged, key)
		}
		label[n] = c
		n++
	}
	if n != 0 || len(key) == 0 {
		return "", fmt.Errorf("%w: owner key %q", errDamaged, key)
	}
	return zone.Name(wire[at:]), nil
}

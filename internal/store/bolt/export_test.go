package bolt

import (
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Seams for the tests of the stored forms.
var (
	Seal         = seal
	Unseal       = unseal
	AppendOwner  = appendOwner
	DecodeOwner  = decodeOwner
	DecodeCursor = decodeCursor
	ErrDamaged   = errDamaged
)

// State is what is stored of a zone beside its records.
type State struct {
	store.State
	Nodes, Sum uint64
}

// AppendState and DecodeState are the form of a zone's state.
func AppendState(b []byte, s State) []byte {
	return appendState(b, state{s.State, s.Nodes, s.Sum})
}

func DecodeState(b []byte) (State, error) {
	s, err := decodeState(b)
	return State{s.State, s.nodes, s.sum}, err
}

// AppendCursor is the stored form of a cursor's value.
func AppendCursor(origin zone.Name, p store.Position) []byte {
	return seal([]byte(origin), appendPosition(nil, p))
}

// DecodeRecord reads a record of the log, and EncodeParts makes one.
var DecodeRecord = decodeRecord

func EncodeParts(parts []part) (b []byte) {
	for i := range parts {
		b = appendPart(b, &parts[i])
	}
	return b
}

// EncodeRecord is the record of a commit to zones whose state before it does not
// matter.
func EncodeRecord(zones []store.ZoneCommit) []byte {
	var parts []part
	for _, z := range zones {
		p := part{origin: z.Origin, after: z.After, nodes: z.Nodes}
		p.next = store.State{Last: z.After + store.Position(len(z.Changesets)), Oldest: 1, Serial: z.Serial}
		for _, cs := range z.Changesets {
			p.entries = append(p.entries, cs.Encode())
		}
		parts = append(parts, p)
	}
	return EncodeParts(parts)
}

// Retire makes the store take its file for failed: stuck as after a panic, or
// else as after an error.
func (s *Store) Retire(cause error, stuck bool) {
	h, err := s.current()
	if err != nil {
		return
	}
	if stuck {
		s.retire(h, cause)
	} else {
		s.fail(h, cause)
	}
}

// Closing reports whether Close has begun.
func (s *Store) Closing() bool { return s.closing.Load() }

// HoldMoving keeps others from writing to the database until the returned function
// is called.
func (s *Store) HoldMoving() (release func()) {
	h, err := s.current()
	if err != nil {
		panic(err)
	}
	h.moving.Lock()
	return h.moving.Unlock
}

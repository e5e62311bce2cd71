package zonedb

import (
	"slices"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// trimSlack is how many entries the journal may be too long before any are
// removed, so that most commits touch only its end.
const trimSlack = 256

// journal is the outline of a zone's stored changesets: enough to find the one a
// secondary is at, and to decide how far back an IXFR is still worth sending. The
// writer owns it; a copy of the struct is a snapshot that others may read,
// because entries are only ever appended behind it.
type journal struct {
	oldest  store.Position // position of entries[0]
	entries []journalEntry
	records uint64 // records an IXFR of everything ever added would send
}

type journalEntry struct {
	from   zone.Serial
	before uint64 // journal.records before this entry was added
}

// ixfrRecords counts the records a changeset adds to an IXFR: what goes, what
// comes, and two SOAs (RFC 1995, section 4).
func ixfrRecords(cs *zone.Changeset) uint64 {
	n := uint64(2)
	for _, s := range cs.Deleted {
		n += uint64(s.Len())
	}
	for _, s := range cs.Added {
		n += uint64(s.Len())
	}
	return n
}

func (j *journal) add(cs *zone.Changeset) {
	j.entries = append(j.entries, journalEntry{cs.FromSerial(), j.records})
	j.records += ixfrRecords(cs)
}

// since counts the records of an IXFR from entry k on.
func (j *journal) since(k int) uint64 {
	if k == len(j.entries) {
		return 0
	}
	return j.records - j.entries[k].before
}

// find returns the index of the changeset that leads away from a serial.
func (j *journal) find(from zone.Serial) (k int, ok bool) {
	for k, e := range slices.Backward(j.entries) { // most ask from near the end
		if e.from == from {
			return k, true
		}
	}
	return 0, false
}

// excess returns the position before which entries should go: those past the
// length allowed, and those from which an IXFR would be larger than an AXFR of so
// many records. It is 0 while trimming is not worth it. hold is the lowest position
// that must stay.
func (j *journal) excess(length, zoneRecords int, hold store.Position) store.Position {
	n := max(len(j.entries)-length, 0)
	for n < len(j.entries) && j.since(n) > uint64(zoneRecords)+2*trimSlack {
		n++
	}
	if n <= trimSlack {
		return 0
	}
	before := min(j.oldest+store.Position(n), hold)
	if before <= j.oldest {
		return 0
	}
	return before
}

// trim forgets the entries before a position. It leaves the array to snapshots
// that still use it.
func (j *journal) trim(before store.Position) {
	if before <= j.oldest {
		return
	}
	n := min(int(before-j.oldest), len(j.entries))
	j.entries = slices.Clone(j.entries[n:])
	j.oldest += store.Position(n)
}

// History is a version with the changesets that lead to it from an earlier one.
type History struct {
	Version *zone.Version
	// After and Last are the positions between which the changesets lie.
	After, Last store.Position
	Records     uint64 // that an IXFR of them sends
}

// Since returns the way from the version with a serial to the present one; false
// when the journal does not go back to it.
func (z *Zone) Since(from zone.Serial) (History, bool) {
	p := z.current.Load()
	k, ok := p.journal.find(from)
	if !ok {
		return History{Version: p.version}, false
	}
	return History{
		Version: p.version,
		After:   p.journal.oldest + store.Position(k) - 1,
		Last:    p.last,
		Records: p.journal.since(k),
	}, true
}

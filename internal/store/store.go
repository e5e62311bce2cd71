// Package store is the durability contract: what a backend must keep for the
// zones of one deployment, and what its answers mean.
//
// Its one invariant: Commit returning nil means that everything in it is on
// stable storage and will be seen by every later Load, whatever happens to the
// process or the machine.
package store

import (
	"context"
	"errors"
	"iter"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Position numbers a zone's changesets from 1. It never wraps and is never used
// again while the zone exists; 0 is "before the first".
type Position uint64

// ErrConflict is returned by Commit and Advance when what they were based on is no
// longer so: a zone's last position is not the one expected, or a cursor is set on
// a zone that is gone or past its last position. Nothing was written.
var ErrConflict = errors.New("conflict: the store holds another position")

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("store closed")

// ErrNoSpace wraps the commit errors of a full disk, quota or file size limit. Like
// every error but ErrConflict and ErrRefused it leaves the outcome unknown.
var ErrNoSpace = errors.New("no space")

// ErrRefused wraps errors that are certain to have written nothing and will
// be the same again: a value too large, a malformed call, a commit that would
// leave a zone which Load refuses (see ZoneCommit.Next).
var ErrRefused = errors.New("refused by the store")

// State is the summary a zone's state is stored with.
type State struct {
	Last   Position // position of the newest changeset; 0 when only Create ran
	Oldest Position // position of the oldest changeset still in the journal; Last+1 when it is empty
	Serial zone.Serial
	// Static is the digest of the static records last merged into the zone;
	// opaque to the store.
	Static string
}

// Entry is one changeset with its position.
type Entry struct {
	Position  Position
	Changeset *zone.Changeset
}

// ZoneCommit is one zone's part of a Commit.
type ZoneCommit struct {
	Origin zone.Name
	// After is the zone's Last before this commit. Its changesets get the
	// positions After+1 and on.
	After      Position
	Changesets []*zone.Changeset
	// Nodes are the owners that changed, with their nodes as they are after the
	// last changeset; an empty node removes the owner.
	Nodes map[zone.Name]zone.Node
	// Serial is the zone's serial after the last changeset.
	Serial zone.Serial
	// Static replaces State.Static when not empty.
	Static string
	// TrimBefore removes the journal's entries below this position; 0 removes
	// nothing. The caller has looked at every cursor.
	TrimBefore Position
}

// Item is one of a follower's own durable notes, ordered by Key.
type Item struct {
	Key   string
	Value []byte
}

// Advance moves a follower's cursors and changes its items in one transaction,
// so that a crash never separates "seen up to here" from "still to do".
type Advance struct {
	Follower string                 // not empty
	Cursors  map[zone.Name]Position // the new cursor of each zone it moved on; others stay
	Put      []Item                 // after Delete; a later one of the same key wins
	Delete   []string               // keys; one that does not exist is ignored
}

// Store keeps zones, their journals, and followers' cursors and items. All
// methods may be called at once from any number of goroutines; commits are
// applied in the order of the calls.
type Store interface {
	// Zones lists the zones that exist.
	Zones() ([]zone.Name, error)

	// Load calls put once for each owner of a zone, in no particular order, and
	// returns its state. A zone that was never committed to gives found == false.
	// An error means that what is stored cannot be read or does not agree with
	// itself, in a sentence for the operator; nothing put so far may be used. Load
	// checks that the apex SOA carries State.Serial and that the newest journal
	// entry ends in it. A nil put reads the state and makes just these checks.
	// After a Commit or Advance of unknown outcome it tells what is on stable
	// storage, or fails until that can be told and writing works again.
	Load(ctx context.Context, origin zone.Name, put func(zone.Name, zone.Node)) (s State, found bool, err error)

	// Commit makes all parts durable in one transaction, all or nothing. nil means
	// on stable storage. ErrConflict, ErrRefused, ErrClosed and ctx's own error mean
	// nothing was written. Any other error means that the outcome is unknown: the
	// caller must not answer for it, and reads the truth with Load. ctx is not
	// looked at once writing began. A first commit of a zone (After == 0) creates
	// it. A commit without zones does nothing.
	Commit(ctx context.Context, zones []ZoneCommit) error

	// Journal yields a zone's entries with positions in (after, upto], oldest
	// first. When after is older than the journal goes back, or it is trimmed past
	// the next entry while the sequence is read, a pair carries ErrTrimmed and is
	// the last, as with every error. A zone that does not exist has no entries. The
	// sequence may be left early. It does not block commits for longer than it
	// takes to read a batch of entries, and its consumer not at all.
	Journal(ctx context.Context, origin zone.Name, after, upto Position) iter.Seq2[Entry, error]

	// Cursors returns where a follower is in each zone it has a cursor for.
	Cursors(follower string) (map[zone.Name]Position, error)

	// Followers lists the names that have a cursor.
	Followers() ([]string, error)

	// Items yields a follower's items with keys from the given one on, in order.
	// Like Journal it reads in batches: an item written meanwhile may be seen.
	Items(follower, from string) iter.Seq2[Item, error]

	// Advance makes a follower's progress durable, with the guarantees of Commit.
	Advance(ctx context.Context, a Advance) error

	// Forget removes a follower with its cursors and items.
	Forget(ctx context.Context, follower string) error

	// Remove deletes a zone with its journal and every cursor on it. A zone of
	// that name created later starts again from position 1.
	Remove(ctx context.Context, origin zone.Name) error

	// Backup writes a consistent copy of the whole store that Open accepts, while
	// commits go on. It returns the octets written. A store that has no file
	// returns ErrRefused.
	Backup(ctx context.Context, w Writer) (int64, error)

	// Stats says how large the store is; cheap enough for a metrics scrape.
	Stats() Stats

	// Close waits for running calls, sequences between two batches excepted, and
	// releases the store. It is safe to call twice.
	Close() error
}

// Writer is io.Writer, named here so that the contract reads on its own.
type Writer interface{ Write(p []byte) (int, error) }

// Sized is a Writer that is told how many octets Backup will write, before the first.
type Sized interface{ Expect(octets int64) }

// Stats are sizes for operators.
type Stats struct {
	Kind  string // "bolt", "memory"
	Bytes int64  // size on disk, 0 for memory
	Free  int64  // of these, free for reuse
}

// ErrTrimmed is Journal's error when the entries asked for are gone.
var ErrTrimmed = errors.New("journal does not go back that far")

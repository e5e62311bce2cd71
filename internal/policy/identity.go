package policy

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Kind is how an identity proves itself.
type Kind uint8

// The kinds of identity.
const (
	Token Kind = iota // a bearer token, over HTTP
	Key               // a TSIG key, over DNS
)

// String returns the word that opens the kind's block in the policy file.
func (k Kind) String() string {
	if k == Key {
		return "key"
	}
	return "token"
}

// Identity is one token or TSIG key with what it may do. It implements
// zone.Permission. The nil *Identity permits nothing.
type Identity struct {
	// immutable after Parse
	ID      string // token: its name in the file; key: its name, with the final dot
	Kind    Kind
	From    []netip.Prefix // peers it may come from; empty is any
	Expires time.Time      // refused from then on; zero is never
	Reload  bool           // may reload, and see and retry hooks
	Line    int            // where its block begins in the file

	hash  [sha256.Size]byte     // tokens only
	exact map[zone.Name]typeSet // by owner
	below map[zone.Name]typeSet // by x of *.x
}

var _ zone.Permission = (*Identity)(nil)

// Permits reports whether some grant covers records of this type at this owner.
// For dns.TypeANY: whether all RRsets of the owner may be deleted at once.
func (i *Identity) Permits(owner zone.Name, typ uint16) bool {
	if i == nil || owner == "" {
		return false
	}
	if i.exact[owner].has(typ) {
		return true
	}
	if len(i.below) == 0 {
		return false
	}
	// A label "*" ends the walk: it is below every x further up.
	for n := owner; n != zone.Root && !n.IsWildcard(); {
		n = n.Parent()
		if i.below[n].has(typ) {
			return true
		}
	}
	return false
}

// Knows reports whether some grant, of whatever type, covers the owner. A
// prerequisite about a name that the requester does not know is refused before
// it is evaluated: its outcome would tell what is in the zone.
func (i *Identity) Knows(owner zone.Name) bool {
	if i == nil || owner == "" {
		return false
	}
	if _, ok := i.exact[owner]; ok {
		return true
	}
	if len(i.below) == 0 {
		return false
	}
	for n := owner; n != zone.Root && !n.IsWildcard(); {
		n = n.Parent()
		if _, ok := i.below[n]; ok {
			return true
		}
	}
	return false
}

// Admits returns nil when the identity may be used from this peer at this time,
// and a *DeniedError otherwise. An IPv4-mapped peer is its IPv4 address, and the
// zone of a link-local one is ignored.
func (i *Identity) Admits(peer netip.Addr, now time.Time) error {
	if !i.Expires.IsZero() && !now.Before(i.Expires) {
		return &DeniedError{ID: i.ID, Kind: i.Kind, Reason: ReasonExpired, Expires: i.Expires}
	}
	if len(i.From) == 0 {
		return nil
	}
	peer = peer.Unmap().WithZone("")
	for _, p := range i.From {
		if p.Contains(peer) {
			return nil
		}
	}
	return &DeniedError{ID: i.ID, Kind: i.Kind, Reason: ReasonPeer, Peer: peer}
}

// Grants lists what the identity may do, one line each as in the policy file:
// exact owners first, then names below, each in canonical order.
func (i *Identity) Grants() []string {
	if i == nil {
		return nil
	}
	var lines []string
	list := func(m map[zone.Name]typeSet, below bool) {
		for _, n := range slices.SortedFunc(maps.Keys(m), zone.Name.Compare) {
			lines = append(lines, "update "+NamePattern{Name: n, Below: below}.String()+" "+m[n].String())
		}
	}
	list(i.exact, false)
	list(i.below, true)
	if i.Reload {
		lines = append(lines, "reload")
	}
	return lines
}

// grant adds types to what p may be updated with.
func (i *Identity) grant(p NamePattern, types typeSet) {
	m := &i.exact
	if p.Below {
		m = &i.below
	}
	if *m == nil {
		*m = make(map[zone.Name]typeSet, 1)
	}
	(*m)[p.Name] = (*m)[p.Name].union(types)
}

// equal reports whether i and j, of the same ID, say the same.
func (i *Identity) equal(j *Identity) bool {
	return i.hash == j.hash && i.Reload == j.Reload && i.Expires.Equal(j.Expires) &&
		slices.Equal(i.From, j.From) &&
		maps.EqualFunc(i.exact, j.exact, typeSet.equal) &&
		maps.EqualFunc(i.below, j.below, typeSet.equal)
}

// Reasons of a DeniedError.
const (
	ReasonPeer    = "peer"
	ReasonExpired = "expired"
)

// DeniedError says why an identity that was proved is not admitted. Its text is
// for the log; a client is told less.
type DeniedError struct {
	ID      string
	Kind    Kind
	Reason  string     // ReasonPeer or ReasonExpired
	Peer    netip.Addr // ReasonPeer
	Expires time.Time  // ReasonExpired
}

func (e *DeniedError) Error() string {
	if e.Reason == ReasonExpired {
		return fmt.Sprintf("%s %s expired at %s", e.Kind, e.ID, e.Expires.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s %s may not come from %s", e.Kind, e.ID, e.Peer)
}

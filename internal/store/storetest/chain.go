package storetest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

const (
	typeA   = 1
	typeSOA = 6
)

// Chain makes commits of one zone that follow from each other, and remembers what
// a store that took all of them holds.
type Chain struct {
	Origin zone.Name
	State  store.State
	Nodes  map[zone.Name]zone.Node
	// Journal holds all changesets ever made, the trimmed ones too: position p
	// is at p-1.
	Journal []*zone.Changeset
}

// NewChain starts a zone that does not exist yet.
func NewChain(origin string) *Chain {
	return &Chain{
		Origin: zone.MustName(origin),
		State:  store.State{Oldest: 1},
		Nodes:  make(map[zone.Name]zone.Node),
	}
}

// Clone copies the chain, so that one commit can be made in two ways.
func (c *Chain) Clone() *Chain {
	d := *c
	d.Nodes = maps.Clone(c.Nodes)
	d.Journal = slices.Clone(c.Journal)
	return &d
}

// Host is the i-th name of a zone.
func (c *Chain) Host(i int) zone.Name {
	return zone.Name(fmt.Sprintf("\x08h%07d", i)) + c.Origin
}

// Change is a new address for an owner; the zero Address removes it.
type Change struct {
	Owner   zone.Name
	Address [4]byte
}

// Address makes an address that tells numbers apart; it is never zero.
func Address(i int) [4]byte {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], uint32(i)+1<<24)
	return a
}

// Set is the change that gives the i-th host an address made of n.
func (c *Chain) Set(i, n int) Change { return Change{c.Host(i), Address(n)} }

// Commit makes the commit of one changeset per group of changes; with no group it
// changes the static mark only. The chain moves on as if it had been taken.
func (c *Chain) Commit(groups ...[]Change) store.ZoneCommit {
	zc := store.ZoneCommit{Origin: c.Origin, After: c.State.Last, Nodes: make(map[zone.Name]zone.Node)}
	for _, changes := range groups {
		cs := &zone.Changeset{
			To:    c.soa(c.State.Serial + 1),
			Cause: zone.Cause{Source: "test", Actor: "chain", Unix: int64(c.State.Last) + 1},
		}
		if c.State.Serial != 0 {
			cs.From = c.soa(c.State.Serial)
		}
		for _, ch := range changes {
			if old, ok := c.Nodes[ch.Owner].RRset(ch.Owner, typeA); ok {
				cs.Deleted = append(cs.Deleted, old)
			}
			if ch.Address == ([4]byte{}) {
				delete(c.Nodes, ch.Owner)
				zc.Nodes[ch.Owner] = ""
				continue
			}
			set := rrset(ch.Owner, typeA, string(ch.Address[:]))
			cs.Added = append(cs.Added, set)
			n := zone.NewNode(set)
			c.Nodes[ch.Owner], zc.Nodes[ch.Owner] = n, n
		}
		byOwner := func(a, b zone.RRset) int { return a.Owner.Compare(b.Owner) }
		slices.SortFunc(cs.Deleted, byOwner)
		slices.SortFunc(cs.Added, byOwner)
		c.State.Serial++
		c.State.Last++
		apex := zone.NewNode(cs.To)
		c.Nodes[c.Origin], zc.Nodes[c.Origin] = apex, apex
		c.Journal = append(c.Journal, cs)
		zc.Changesets = append(zc.Changesets, cs)
	}
	zc.Serial = c.State.Serial
	return zc
}

// Create makes the first commit, with the apex and the hosts 0 to n-1.
func (c *Chain) Create(n int) store.ZoneCommit {
	changes := make([]Change, n)
	for i := range n {
		changes[i] = c.Set(i, i)
	}
	return c.Commit(changes)
}

// Trim makes the commit zc drop the journal's entries below p as well.
func (c *Chain) Trim(zc store.ZoneCommit, p store.Position) store.ZoneCommit {
	zc.TrimBefore = p
	c.State.Oldest = max(c.State.Oldest, p)
	return zc
}

func (c *Chain) soa(serial zone.Serial) zone.RRset {
	d := string("\x02ns"+c.Origin) + string("\x0ahostmaster"+c.Origin)
	for _, n := range []uint32{uint32(serial), 3600, 600, 86400, 60} {
		d += string(binary.BigEndian.AppendUint32(nil, n))
	}
	return rrset(c.Origin, typeSOA, d)
}

func rrset(owner zone.Name, typ uint16, data ...string) zone.RRset {
	s, err := zone.RRset{Owner: owner, Type: typ, TTL: 60}.WithData(data)
	if err != nil {
		panic(err) // a few octets always fit
	}
	return s
}

package zone

import (
	"fmt"
	"iter"

	"github.com/miekg/dns"
)

// Candidate is a Version in the making. It is not safe for concurrent use. A
// Plan only reads it; Apply changes it; Version freezes what it is now, and the
// Candidate may go on from there.
type Candidate struct {
	now     Version // its gen is that of the edits under way
	seen    map[Name]struct{}
	touched []Name // in the order of the first touch
}

// Candidate returns a Candidate that starts as v.
func (v *Version) Candidate() *Candidate {
	c := &Candidate{now: *v}
	// Nodes carrying this generation can only have been made by this Candidate:
	// those of others from the same Version are not reachable from here.
	c.now.gen++
	return c
}

// Version freezes the Candidate's present state.
func (c *Candidate) Version() *Version {
	v := c.now
	c.now.gen++
	return &v
}

// Origin is the zone's apex.
func (c *Candidate) Origin() Name { return c.now.origin }

// Node returns all RRsets of an owner, as Version.Node does.
func (c *Candidate) Node(owner Name) Node { return c.now.Node(owner) }

// RRset returns one RRset of the Candidate.
func (c *Candidate) RRset(owner Name, typ uint16) (RRset, bool) { return c.now.RRset(owner, typ) }

// SOA is the Candidate's SOA RRset; empty when it has none.
func (c *Candidate) SOA() RRset { return c.now.soa }

// Counts returns the Candidate's sizes.
func (c *Candidate) Counts() Counts { return c.now.counts }

// All yields every owner that has records, as Version.All does. The Candidate
// must not be changed meanwhile.
func (c *Candidate) All() iter.Seq2[Name, Node] { return c.now.All() }

// Touched yields each owner that Apply changed since the Candidate was made,
// with its node now (empty: removed). The SOA is part of the apex node; the
// serial alone changing does touch the apex.
func (c *Candidate) Touched() iter.Seq2[Name, Node] {
	return func(yield func(Name, Node) bool) {
		for _, owner := range c.touched {
			if !yield(owner, c.Node(owner)) {
				return
			}
		}
	}
}

// TouchedCount is how many owners Touched yields.
func (c *Candidate) TouchedCount() int { return len(c.touched) }

// Put sets an owner's whole node, for loading a stored zone; it checks nothing.
func (c *Candidate) Put(owner Name, n Node) {
	l := c.now.index.get(owner)
	var old Node
	var children uint64
	if l != "" {
		old, children = l.node(), l.children()
	}
	c.count(owner, old, -1)
	c.count(owner, n, +1)
	if owner == c.now.origin {
		c.now.setSOA(n)
	}
	if n == "" && children == 0 {
		if l != "" {
			c.now.index.remove(c.now.gen, owner)
			c.gone(owner)
		}
		return
	}
	c.now.index.set(c.now.gen, makeLeaf(children, owner, n))
	if l == "" {
		c.come(owner)
	}
}

// come makes the ancestors of a new owner know of it. The apex needs no count:
// it exists whatever is below it.
func (c *Candidate) come(owner Name) {
	for owner != c.now.origin {
		if owner.IsWildcard() {
			c.now.wildcards++
		}
		owner = owner.Parent()
		if owner == c.now.origin || !owner.Below(c.now.origin) {
			return
		}
		l := c.now.index.get(owner)
		if l != "" {
			c.now.index.set(c.now.gen, makeLeaf(l.children()+1, owner, l.node()))
			return
		}
		c.now.index.set(c.now.gen, makeLeaf(1, owner, ""))
	}
}

// gone is the opposite: an empty non-terminal goes with its last child.
func (c *Candidate) gone(owner Name) {
	for owner != c.now.origin {
		if owner.IsWildcard() {
			c.now.wildcards--
		}
		owner = owner.Parent()
		if owner == c.now.origin || !owner.Below(c.now.origin) {
			return
		}
		l := c.now.index.get(owner)
		if children, n := l.children()-1, l.node(); children > 0 || n != "" {
			c.now.index.set(c.now.gen, makeLeaf(children, owner, n))
			return
		}
		c.now.index.remove(c.now.gen, owner)
	}
}

// count adds a node to the sizes, or takes it off them.
func (c *Candidate) count(owner Name, n Node, sign int) {
	if n == "" {
		return
	}
	v := &c.now
	v.counts.Names += sign
	for set := range n.RRsets(owner) {
		l := set.Len()
		v.counts.RRsets += sign
		v.counts.Records += sign * l
		if set.Static {
			v.counts.Static += sign * l
		}
		switch {
		case set.Type == dns.TypeNS && owner != v.origin:
			v.cuts += sign
		case set.Type == dns.TypeDNAME:
			v.dnames += sign
		}
	}
}

// setSOA takes over the SOA of an apex node.
func (v *Version) setSOA(apex Node) {
	soa, _ := apex.RRset(v.origin, dns.TypeSOA)
	if soa == v.soa {
		return
	}
	v.soa, v.serial, v.negative = soa, soaSerial(soa), dns.SOA{}
	for _, rr := range soa.AppendRRs(nil, v.origin.String()) {
		if s, ok := rr.(*dns.SOA); ok {
			v.negative = *s
			// RFC 2308, section 3: the TTL is the lesser of MINIMUM and the SOA's own.
			v.negative.Hdr.Ttl = min(s.Hdr.Ttl, s.Minttl)
		}
	}
}

// Apply moves the Candidate by one changeset. An error means that the changeset
// does not follow from this state: the journal and the zone disagree. The
// Candidate is then as it was.
func (c *Candidate) Apply(cs *Changeset) error {
	if cs.From != c.now.soa {
		return fmt.Errorf("changeset of %s from serial %d: the zone is at %d", c.now.origin, soaSerial(cs.From), c.now.serial)
	}
	nodes, err := c.step(cs)
	if err != nil {
		return fmt.Errorf("changeset of %s from serial %d: %w", c.now.origin, c.now.serial, err)
	}
	if c.touched == nil {
		c.touched = make([]Name, 0, len(nodes))
	} else if c.seen == nil { // by a first changeset alone each was touched once
		c.seen = make(map[Name]struct{}, len(c.touched)+len(nodes))
		for _, owner := range c.touched {
			c.seen[owner] = struct{}{}
		}
	}
	for _, e := range nodes {
		if c.seen == nil {
			c.touched = append(c.touched, e.owner)
		} else if _, again := c.seen[e.owner]; !again {
			c.seen[e.owner] = struct{}{}
			c.touched = append(c.touched, e.owner)
		}
	}
	if c.now.index.empty() && len(nodes) > fewOwners {
		b := newBuilder(c)
		for _, e := range nodes {
			b.Put(e.owner, e.node)
		}
		b.finish()
		return nil
	}
	for _, e := range nodes {
		c.Put(e.owner, e.node)
	}
	return nil
}

// edit is the node an owner is to get.
type edit struct {
	owner Name
	node  Node
}

// step works out the nodes cs leads to, without changing anything.
func (c *Candidate) step(cs *Changeset) ([]edit, error) {
	apex := c.now.origin
	if !cs.To.Empty() && (cs.To.Owner != apex || cs.To.Type != dns.TypeSOA || cs.To.Len() != 1) {
		return nil, fmt.Errorf("its new SOA is %d records %s %s", cs.To.Len(), cs.To.Owner, TypeString(cs.To.Type))
	}
	lists := len(cs.Deleted) + len(cs.Added)
	edits := make([]edit, 0, 2+lists/2)
	var many *places
	find := func(owner Name) *edit {
		if many == nil {
			for i := range edits {
				if edits[i].owner == owner {
					return &edits[i]
				}
			}
			if len(edits) == fewOwners {
				many = newPlaces(2 + lists/2)
				for i := range edits {
					many.of(edits[i].owner)
				}
			}
		}
		if many != nil {
			if at, added := many.of(owner); !added {
				return &edits[at]
			}
		}
		edits = append(edits, edit{owner, c.Node(owner)})
		return &edits[len(edits)-1]
	}
	check := func(set RRset) error {
		switch {
		case !set.Owner.Within(apex):
			return fmt.Errorf("%s is not in the zone", set.Owner)
		case set.Type == dns.TypeSOA || set.Empty():
			return fmt.Errorf("%s %s is not for its lists", set.Owner, TypeString(set.Type))
		}
		return nil
	}
	for _, set := range cs.Deleted {
		if err := check(set); err != nil {
			return nil, err
		}
		e := find(set.Owner)
		left, err := e.node.minus(set)
		if err != nil {
			return nil, err
		}
		e.node = left
	}
	for _, set := range cs.Added {
		if err := check(set); err != nil {
			return nil, err
		}
		e := find(set.Owner)
		sum, err := e.node.plus(set)
		if err != nil {
			return nil, err
		}
		e.node = sum
	}
	e := find(apex)
	to := cs.To
	to.Owner, to.Type = apex, dns.TypeSOA
	e.node = e.node.with(to)
	return edits, nil
}

// minus takes the records of set, which must all be there, off n.
func (n Node) minus(set RRset) (Node, error) {
	old, ok := n.RRset(set.Owner, set.Type)
	if !ok || old.TTL != set.TTL || old.Static != set.Static {
		return "", fmt.Errorf("%s %s to delete is not there, or has another TTL", set.Owner, TypeString(set.Type))
	}
	if old.data == set.data {
		old.data = ""
		return n.with(old), nil
	}
	left := make([]string, 0, old.Len())
	for d := range old.Data() {
		if !set.Has(d) {
			left = append(left, d)
		}
	}
	if len(left)+set.Len() != old.Len() {
		return "", fmt.Errorf("%s %s has a record to delete that is not there", set.Owner, TypeString(set.Type))
	}
	old, err := old.WithData(left)
	if err != nil {
		return "", err
	}
	return n.with(old), nil
}

// plus adds the records of set, none of which may be there, to n. TTL and mark
// become those of set.
func (n Node) plus(set RRset) (Node, error) {
	old, ok := n.RRset(set.Owner, set.Type)
	if !ok {
		return n.with(set), nil
	}
	all := make([]string, 0, old.Len()+set.Len())
	for d := range old.Data() {
		all = append(all, d)
	}
	for d := range set.Data() {
		all = append(all, d)
	}
	count := len(all)
	sum, err := set.WithData(all)
	if err != nil {
		return "", err
	}
	if sum.Len() != count {
		return "", fmt.Errorf("%s %s has a record to add that is there already", set.Owner, TypeString(set.Type))
	}
	return n.with(sum), nil
}

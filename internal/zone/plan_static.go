package zone

import (
	"slices"

	"github.com/miekg/dns"
)

// SeedUpdate is the update that creates a zone from a seed: every record is
// dynamic from the start, the apex included.
func SeedUpdate(seed []RRset) Update {
	u := Update{Operations: make([]Operation, 0, len(seed))}
	for _, set := range seed {
		u.Operations = append(u.Operations, Operation{Kind: AddRecords, Owner: set.Owner, Type: set.Type, RRset: set})
	}
	return u
}

// StaticUpdate is the update that makes the static part of the Candidate what the
// operator's file says: static RRsets that the file no longer has are deleted, new
// and changed ones replaced. A name of the file is the file's alone, so dynamic
// RRsets found there go; takenOver lists those names, in order, for a warning.
//
// Of the file's SOA all but the serial counts: the serial is the zone's own, and a
// file that differs in nothing else changes nothing. Only the first version of a
// zone takes the file's serial into account (see Plan).
//
// An empty file means that there is no longer one: the records that were static
// become dynamic, because a zone handed over to updates still needs its apex.
func StaticUpdate(c *Candidate, file []RRset) (u Update, takenOver []Name) {
	type key struct {
		owner Name
		typ   uint16
	}
	u.Static = true
	op := func(kind OperationKind, set RRset) {
		u.Operations = append(u.Operations, Operation{Kind: kind, Owner: set.Owner, Type: set.Type, RRset: set})
	}
	if c.Counts().Names == 0 {
		u.Operations = make([]Operation, 0, len(file))
		for _, set := range file {
			set.Static = true
			op(AddRecords, set)
		}
		return u, nil
	}
	wanted := make(map[key]struct{}, len(file))
	owners := make(map[Name]struct{}, len(file))
	for _, set := range file {
		wanted[key{set.Owner, set.Type}] = struct{}{}
		owners[set.Owner] = struct{}{}
	}

	// What the file does not have, of the names that it had and those that it has.
	for owner, node := range c.held(owners) {
		taken := false
		for set := range node.RRsets(owner) {
			_, keep := wanted[key{owner, set.Type}]
			switch {
			case len(file) == 0:
				set.Static = false
				op(AddRecords, set)
			case !keep:
				op(DeleteRRset, RRset{Owner: owner, Type: set.Type})
			}
			taken = taken || !set.Static && len(file) > 0
		}
		if taken {
			takenOver = append(takenOver, owner)
		}
	}
	for _, set := range file {
		set.Static = true
		old, ok := c.RRset(set.Owner, set.Type)
		switch {
		case set.Type == dns.TypeSOA: // replaced as it is added
		case ok && old == set:
			continue
		case ok:
			op(DeleteRRset, RRset{Owner: set.Owner, Type: set.Type})
		}
		op(AddRecords, set)
	}
	slices.SortFunc(takenOver, Name.Compare)
	return u, takenOver
}

// held yields the names that the operator's file holds or is about to hold, with
// their nodes. It stops once it has seen all, since they are few among many.
func (c *Candidate) held(owners map[Name]struct{}) func(yield func(Name, Node) bool) {
	return func(yield func(Name, Node) bool) {
		for owner := range owners {
			if n := c.Node(owner); n != "" && !yield(owner, n) {
				return
			}
		}
		left := c.Counts().Static
		for owner := range owners {
			left -= staticRecords(owner, c.Node(owner))
		}
		if left == 0 {
			return
		}
		for owner, n := range c.All() {
			if _, seen := owners[owner]; seen {
				continue
			}
			k := staticRecords(owner, n)
			if k == 0 {
				continue
			}
			if !yield(owner, n) {
				return
			}
			if left -= k; left == 0 {
				return
			}
		}
	}
}

func staticRecords(owner Name, n Node) int {
	c := 0
	for set := range n.RRsets(owner) {
		if !set.Static {
			return 0
		}
		c += set.Len()
	}
	return c
}

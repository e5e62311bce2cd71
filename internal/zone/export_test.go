package zone

// NewVersionHashing is NewVersion with another hash, to make owners collide.
func NewVersionHashing(origin Name, hash func(Name) uint64) *Version {
	return &Version{origin: origin, index: newTrie(hash)}
}

// IndexShape returns how many interior nodes and leaves the index has, and an error
// text when it is not in its one proper shape.
func (v *Version) IndexShape() (nodes, leaves int, bad string) {
	var walk func(n *trieNode, depth int)
	walk = func(n *trieNode, depth int) {
		nodes++
		leaves += n.leaves.len()
		switch {
		case n.leafMap&n.kidMap != 0:
			bad = "a slot with both a leaf and a node"
		case depth < trieDepth && (ones(n.leafMap) != n.leaves.len() || ones(n.kidMap) != len(n.kids)):
			bad = "slots and slices differ"
		case depth > 0 && len(n.kids) == 0 && n.leaves.len() < 2:
			bad = "a node that need not be"
		case len(n.kids) != cap(n.kids):
			bad = "slices with room"
		}
		for _, k := range n.kids {
			walk(k, depth+1)
		}
	}
	walk(v.index.root, 0)
	return nodes, leaves, bad
}

func ones(m uint32) (n int) {
	for ; m != 0; m &= m - 1 {
		n++
	}
	return n
}

// Walks returns the counts that let Lookup leave out walks.
func (v *Version) Walks() (cuts, dnames, wildcards int) { return v.cuts, v.dnames, v.wildcards }

package zone

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// The index of a Version is a persistent hash trie (a HAMT): five bits of the
// owner's hash choose a slot on each level, and a slot holds a leaf or a node
// of the next level. It has one heap object per owner and exact-size slices,
// because at a million owners memory and the garbage collector's work are what
// shows; it needs no order, because closest encloser and wildcard are found by
// stripping labels.

const (
	trieBits   = 5
	trieDepth  = (64 + trieBits - 1) / trieBits // below it the hash is used up: owners that collide, in a list
	ownsLeaves = 1
	ownsKids   = 2
)

// trieNode is an interior node. It is immutable for everyone but the editor of
// the generation in own.
type trieNode struct {
	leafMap, kidMap uint32
	own             uint64 // generation<<2 | which of the slices were made in it
	leaves          []leaf
	kids            []*trieNode
}

// leaf is one owner: the count of its children (uvarint), the length of its name
// (one octet), its name, its Node. An empty non-terminal is a leaf with children
// and an empty Node (RFC 4592, section 2.2.2).
type leaf string

func makeLeaf(children uint64, owner Name, n Node) leaf {
	var b strings.Builder
	size := 2 + len(owner) + len(n)
	for c := children; c >= 0x80; c >>= 7 {
		size++
	}
	b.Grow(size)
	for ; children >= 0x80; children >>= 7 {
		b.WriteByte(byte(children) | 0x80)
	}
	b.WriteByte(byte(children))
	b.WriteByte(byte(len(owner)))
	b.WriteString(string(owner))
	b.WriteString(string(n))
	return leaf(b.String())
}

// skip returns where the length of the name is.
func (l leaf) skip() int {
	i := 0
	for l[i] >= 0x80 {
		i++
	}
	return i + 1
}

func (l leaf) is(owner Name) bool {
	i := l.skip()
	return int(l[i]) == len(owner) && Name(l[i+1:i+1+len(owner)]) == owner
}

func (l leaf) owner() Name {
	i := l.skip()
	return Name(l[i+1 : i+1+int(l[i])])
}

func (l leaf) node() Node {
	i := l.skip()
	return Node(l[i+1+int(l[i]):])
}

func (l leaf) children() uint64 {
	var c uint64
	for i := 0; ; i++ {
		c |= uint64(l[i]&0x7f) << (7 * i)
		if l[i] < 0x80 {
			return c
		}
	}
}

// trie is a root and the way its keys are hashed.
type trie struct {
	root *trieNode
	hash func(Name) uint64
}

// trieSeed makes the shape of a trie unpredictable to whoever chooses the names.
var trieSeed = maphash.MakeSeed()

func hashName(n Name) uint64 { return maphash.String(trieSeed, string(n)) }

func newTrie(hash func(Name) uint64) trie { return trie{&trieNode{}, hash} }

// get returns the leaf of an owner; "" when there is none.
func (t trie) get(owner Name) leaf {
	n, h := t.root, t.hash(owner)
	for range trieDepth {
		bit := uint32(1) << (h & (1<<trieBits - 1))
		switch {
		case n.kidMap&bit != 0:
			n = n.kids[bits.OnesCount32(n.kidMap&(bit-1))]
			h >>= trieBits
		case n.leafMap&bit != 0:
			if l := n.leaves[bits.OnesCount32(n.leafMap&(bit-1))]; l.is(owner) {
				return l
			}
			return ""
		default:
			return ""
		}
	}
	for _, l := range n.leaves {
		if l.is(owner) {
			return l
		}
	}
	return ""
}

// all calls yield for each leaf until it returns false.
func (n *trieNode) all(yield func(leaf) bool) bool {
	for _, l := range n.leaves {
		if !yield(l) {
			return false
		}
	}
	for _, k := range n.kids {
		if !k.all(yield) {
			return false
		}
	}
	return true
}

// set puts l in the place of its owner's leaf, changing in place what was made
// in generation gen and copying the rest of the path.
func (t *trie) set(gen uint64, l leaf) {
	owner := l.owner()
	t.root = t.root.set(gen, 0, t.hash(owner), owner, l, t.hash)
}

// remove takes an owner's leaf out; it does nothing when there is none.
func (t *trie) remove(gen uint64, owner Name) {
	t.root = t.root.remove(gen, 0, t.hash(owner), owner)
}

// mine returns n, or a copy that shares its slices, as an object gen may change.
func (n *trieNode) mine(gen uint64) *trieNode {
	if n.own>>2 == gen && n.own&3 != 0 {
		return n
	}
	c := *n
	c.own = gen << 2
	return &c
}

func (n *trieNode) set(gen uint64, depth int, h uint64, owner Name, l leaf, hash func(Name) uint64) *trieNode {
	if depth == trieDepth {
		for i, old := range n.leaves {
			if old.is(owner) {
				return n.setLeaf(gen, i, l)
			}
		}
		return n.insertLeaf(gen, 0, len(n.leaves), l)
	}
	bit := uint32(1) << (h & (1<<trieBits - 1))
	ki, li := bits.OnesCount32(n.kidMap&(bit-1)), bits.OnesCount32(n.leafMap&(bit-1))
	switch {
	case n.kidMap&bit != 0:
		kid := n.kids[ki].set(gen, depth+1, h>>trieBits, owner, l, hash)
		return n.setKid(gen, ki, kid)
	case n.leafMap&bit == 0:
		return n.insertLeaf(gen, bit, li, l)
	case n.leaves[li].is(owner):
		return n.setLeaf(gen, li, l)
	}
	// Two owners in one slot: both go a level down.
	other := n.leaves[li]
	name := other.owner()
	kid := (&trieNode{own: gen << 2}).set(gen, depth+1, hash(name)>>(trieBits*(depth+1)), name, other, hash)
	kid = kid.set(gen, depth+1, h>>trieBits, owner, l, hash)
	return n.deleteLeaf(gen, bit, li).insertKid(gen, bit, ki, kid)
}

func (n *trieNode) remove(gen uint64, depth int, h uint64, owner Name) *trieNode {
	if depth == trieDepth {
		for i, old := range n.leaves {
			if old.is(owner) {
				return n.deleteLeaf(gen, 0, i)
			}
		}
		return n
	}
	bit := uint32(1) << (h & (1<<trieBits - 1))
	ki, li := bits.OnesCount32(n.kidMap&(bit-1)), bits.OnesCount32(n.leafMap&(bit-1))
	switch {
	case n.kidMap&bit != 0:
		old := n.kids[ki]
		kid := old.remove(gen, depth+1, h>>trieBits, owner)
		if len(kid.kids) == 0 && len(kid.leaves) == 1 {
			// A lone leaf moves up, so that a trie's shape depends on its owners only.
			return n.deleteKid(gen, bit, ki).insertLeaf(gen, bit, li, kid.leaves[0])
		}
		return n.setKid(gen, ki, kid)
	case n.leafMap&bit != 0 && n.leaves[li].is(owner):
		return n.deleteLeaf(gen, bit, li)
	}
	return n
}

func (n *trieNode) setLeaf(gen uint64, i int, l leaf) *trieNode {
	n = n.mine(gen)
	if n.own&ownsLeaves == 0 {
		n.leaves = clone(n.leaves)
		n.own |= ownsLeaves
	}
	n.leaves[i] = l
	return n
}

func (n *trieNode) setKid(gen uint64, i int, kid *trieNode) *trieNode {
	if n.kids[i] == kid {
		return n
	}
	n = n.mine(gen)
	if n.own&ownsKids == 0 {
		n.kids = clone(n.kids)
		n.own |= ownsKids
	}
	n.kids[i] = kid
	return n
}

func (n *trieNode) insertLeaf(gen uint64, bit uint32, i int, l leaf) *trieNode {
	n = n.mine(gen)
	n.leaves = insert(n.leaves, i, l)
	n.leafMap |= bit
	n.own |= ownsLeaves
	return n
}

func (n *trieNode) deleteLeaf(gen uint64, bit uint32, i int) *trieNode {
	n = n.mine(gen)
	n.leaves = without(n.leaves, i)
	n.leafMap &^= bit
	n.own |= ownsLeaves
	return n
}

func (n *trieNode) insertKid(gen uint64, bit uint32, i int, kid *trieNode) *trieNode {
	n = n.mine(gen)
	n.kids = insert(n.kids, i, kid)
	n.kidMap |= bit
	n.own |= ownsKids
	return n
}

func (n *trieNode) deleteKid(gen uint64, bit uint32, i int) *trieNode {
	n = n.mine(gen)
	n.kids = without(n.kids, i)
	n.kidMap &^= bit
	n.own |= ownsKids
	return n
}

// clone, insert and without return new slices of exactly the needed size; those
// of package slices leave room to grow, which would double the index.

func clone[T any](s []T) []T {
	c := make([]T, len(s))
	copy(c, s)
	return c
}

func insert[T any](s []T, i int, v T) []T {
	c := make([]T, len(s)+1)
	copy(c, s[:i])
	c[i] = v
	copy(c[i+1:], s[i:])
	return c
}

func without[T any](s []T, i int) []T {
	if len(s) == 1 {
		return nil
	}
	c := make([]T, len(s)-1)
	copy(c, s[:i])
	copy(c[i:], s[i+1:])
	return c
}

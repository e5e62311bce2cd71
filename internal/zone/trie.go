package zone

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// The index of a Version is a persistent hash trie (a HAMT): five bits of the
// owner's hash choose a slot on each level, and a slot holds a leaf or a node
// of the next level. The leaves of a node are one string, so that a heap object
// without pointers holds several owners: at a million of them memory, the garbage
// collector's work and the processor's caches are what shows. It needs no order,
// because closest encloser and wildcard are found by stripping labels.

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
	leaves          leaves
	kids            []*trieNode
}

// leaves are the leaves of one node in the order of their slots: where each begins
// (4 octets, the lowest first), then one after the other.
type leaves string

func (b leaves) offset(i int) int {
	o := b[4*i : 4*i+4]
	return int(uint32(o[0]) | uint32(o[1])<<8 | uint32(o[2])<<16 | uint32(o[3])<<24)
}

func (b leaves) len() int {
	if b == "" {
		return 0
	}
	return b.offset(0) / 4 // the first begins behind the offsets
}

func (b leaves) at(i int) leaf {
	if i+1 < b.len() {
		return leaf(b[b.offset(i):b.offset(i+1)])
	}
	return leaf(b[b.offset(i):])
}

// splice puts l, if not empty, in the place of some leaves from the i-th on.
func (b leaves) splice(i, drop int, l leaf) leaves {
	n := b.len()
	from, to := len(b), len(b) // what goes
	if i < n {
		from = b.offset(i)
	}
	if i+drop < n {
		to = b.offset(i + drop)
	}
	m := n - drop
	if l != "" {
		m++
	}
	if m == 0 {
		return ""
	}
	var room [4 << trieBits]byte
	head, at := room[:0], 4*m
	begins := func(size int) {
		head = append(head, byte(at), byte(at>>8), byte(at>>16), byte(at>>24))
		at += size
	}
	for k := range i {
		begins(len(b.at(k)))
	}
	if l != "" {
		begins(len(l))
	}
	for k := i + drop; k < n; k++ {
		begins(len(b.at(k)))
	}
	var out strings.Builder
	out.Grow(at)
	out.Write(head)
	out.WriteString(string(b[4*n : from]))
	out.WriteString(string(l))
	out.WriteString(string(b[to:]))
	return leaves(out.String())
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
			if l := n.leaves.at(bits.OnesCount32(n.leafMap & (bit - 1))); l.is(owner) {
				return l
			}
			return ""
		default:
			return ""
		}
	}
	if i := n.leaves.index(owner); i >= 0 {
		return n.leaves.at(i)
	}
	return ""
}

// index finds an owner among leaves that are in no slot; -1 when it is not there.
func (b leaves) index(owner Name) int {
	for i := range b.len() {
		if b.at(i).is(owner) {
			return i
		}
	}
	return -1
}

// all calls yield for each leaf until it returns false.
func (n *trieNode) all(yield func(leaf) bool) bool {
	for i := range n.leaves.len() {
		if !yield(n.leaves.at(i)) {
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
		if i := n.leaves.index(owner); i >= 0 {
			return n.setLeaf(gen, i, l)
		}
		return n.insertLeaf(gen, 0, n.leaves.len(), l)
	}
	bit := uint32(1) << (h & (1<<trieBits - 1))
	ki, li := bits.OnesCount32(n.kidMap&(bit-1)), bits.OnesCount32(n.leafMap&(bit-1))
	switch {
	case n.kidMap&bit != 0:
		kid := n.kids[ki].set(gen, depth+1, h>>trieBits, owner, l, hash)
		return n.setKid(gen, ki, kid)
	case n.leafMap&bit == 0:
		return n.insertLeaf(gen, bit, li, l)
	case n.leaves.at(li).is(owner):
		return n.setLeaf(gen, li, l)
	}
	// Two owners in one slot: both go a level down.
	other := n.leaves.at(li)
	name := other.owner()
	kid := (&trieNode{own: gen << 2}).set(gen, depth+1, hash(name)>>(trieBits*(depth+1)), name, other, hash)
	kid = kid.set(gen, depth+1, h>>trieBits, owner, l, hash)
	return n.deleteLeaf(gen, bit, li).insertKid(gen, bit, ki, kid)
}

func (n *trieNode) remove(gen uint64, depth int, h uint64, owner Name) *trieNode {
	if depth == trieDepth {
		if i := n.leaves.index(owner); i >= 0 {
			return n.deleteLeaf(gen, 0, i)
		}
		return n
	}
	bit := uint32(1) << (h & (1<<trieBits - 1))
	ki, li := bits.OnesCount32(n.kidMap&(bit-1)), bits.OnesCount32(n.leafMap&(bit-1))
	switch {
	case n.kidMap&bit != 0:
		old := n.kids[ki]
		kid := old.remove(gen, depth+1, h>>trieBits, owner)
		if len(kid.kids) == 0 && kid.leaves.len() == 1 {
			// A lone leaf moves up, so that a trie's shape depends on its owners only.
			return n.deleteKid(gen, bit, ki).insertLeaf(gen, bit, li, kid.leaves.at(0))
		}
		return n.setKid(gen, ki, kid)
	case n.leafMap&bit != 0 && n.leaves.at(li).is(owner):
		return n.deleteLeaf(gen, bit, li)
	}
	return n
}

func (n *trieNode) setLeaf(gen uint64, i int, l leaf) *trieNode {
	n = n.mine(gen)
	n.leaves = n.leaves.splice(i, 1, l)
	n.own |= ownsLeaves
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
	n.leaves = n.leaves.splice(i, 0, l)
	n.leafMap |= bit
	n.own |= ownsLeaves
	return n
}

func (n *trieNode) deleteLeaf(gen uint64, bit uint32, i int) *trieNode {
	n = n.mine(gen)
	n.leaves = n.leaves.splice(i, 1, "")
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

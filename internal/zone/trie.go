package zone

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

// The index of a Version is a persistent hash trie (a HAMT): five bits of the
// owner's hash choose a slot on each level. A slot has a node of the next level, or
// shares a bucket with its neighbours: one bucket is split in two when it is full, and a
// slot whose own bucket is full gets a node. So the shape depends on the owners and the
// sizes of their leaves only, and a heap object holds a dozen or two: at a million
// owners memory, the garbage collector's work and the processor's caches are what
// shows. It needs no order, because closest encloser and wildcard are found by
// stripping labels.

const (
	trieBits    = 5
	trieSlots   = 1 << trieBits
	trieDepth   = (64 + trieBits - 1) / trieBits // levels; the last has buckets of any size
	ownsBuckets = 1
	ownsKids    = 2
)

// trieNode is an interior node. It is immutable for everyone but the editor of
// the generation in own.
type trieNode struct {
	firstMap uint32 // the first slot of each bucket
	kidMap   uint32 // the slots with a node
	own      uint64 // generation<<2 | which of the slices were made in it
	buckets  []bucket
	kids     []*trieNode
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

func newTrie(hash func(Name) uint64) trie {
	return trie{&trieNode{firstMap: 1, buckets: []bucket{""}}, hash}
}

// empty reports whether there is no leaf.
func (t trie) empty() bool {
	return t.root.kidMap == 0 && len(t.root.buckets) == 1 && t.root.buckets[0] == ""
}

// get returns the leaf of an owner; "" when there is none.
func (t trie) get(owner Name) leaf {
	hash := t.hash(owner)
	for n, h := t.root, hash; ; h >>= trieBits {
		slot := int(h & (trieSlots - 1))
		if n.kidMap&(1<<slot) == 0 {
			_, l := n.buckets[n.bucketOf(slot)].find(tagOf(hash), owner)
			return l
		}
		n = n.kids[n.kidOf(slot)]
	}
}

// kidOf is the place of a slot's node among kids.
func (n *trieNode) kidOf(slot int) int { return bits.OnesCount32(n.kidMap & (1<<slot - 1)) }

// bucketOf is the place of a slot's bucket among buckets; for a slot with a node,
// where its own would be, less one.
func (n *trieNode) bucketOf(slot int) int { return bits.OnesCount32(n.firstMap&(2<<slot-1)) - 1 }

// span returns the slots of the bucket that has this one: the first, and how many.
func (n *trieNode) span(slot int) (first, width int) {
	first = bits.Len32(n.firstMap&(2<<slot-1)) - 1
	after := (n.firstMap | n.kidMap) &^ (2<<first - 1)
	return first, min(bits.TrailingZeros32(after), trieSlots) - first
}

// all calls yield for each leaf until it returns false.
func (n *trieNode) all(yield func(leaf) bool) bool {
	for _, b := range n.buckets {
		if !b.all(yield) {
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
	e := trieEdit{gen: gen, owner: owner, hash: t.hash(owner), hashOf: t.hash}
	t.root = e.set(t.root, 0, l)
}

// remove takes an owner's leaf out; it does nothing when there is none.
func (t *trie) remove(gen uint64, owner Name) {
	e := trieEdit{gen: gen, owner: owner, hash: t.hash(owner), hashOf: t.hash}
	t.root = e.remove(t.root, 0)
}

// trieEdit is a change of one owner's leaf.
type trieEdit struct {
	gen    uint64
	owner  Name
	hash   uint64
	hashOf func(Name) uint64
}

// slotAt is the slot that a hash chooses on a level.
func slotAt(hash uint64, depth int) int { return int(hash >> (depth * trieBits) & (trieSlots - 1)) }

func (e *trieEdit) set(n *trieNode, depth int, l leaf) *trieNode {
	slot := slotAt(e.hash, depth)
	if n.kidMap&(1<<slot) != 0 {
		return e.adopt(n, slot, e.set(n.kids[n.kidOf(slot)], depth+1, l))
	}
	i := n.bucketOf(slot)
	b := n.buckets[i]
	at, drop := b.len(), 0
	if k, _ := b.find(tagOf(e.hash), e.owner); k >= 0 {
		at, drop = k, 1
	}
	b = b.splice(at, drop, tagOf(e.hash), l)
	first, width := n.span(slot)
	if fits(b.len(), b.octets()) || depth == trieDepth-1 && width == 1 {
		n = n.setBucket(e.gen, i, b)
		n.merge(slot) // it may be shorter than it was
		return n
	}
	items := b.list()
	for k := range items {
		items[k].hash = e.hashOf(items[k].leaf.owner())
	}
	n = n.mine(e.gen)
	n.cutBucket(first)
	n.spread(e.gen, depth, first, width, items)
	return n
}

// spread puts leaves into slots that have nothing: into one bucket if they fit, else
// each half of the slots for itself, and what does not fit into one slot into a node.
func (n *trieNode) spread(gen uint64, depth, first, width int, items []hashed) {
	switch {
	case fits(len(items), octets(items)) || depth == trieDepth-1 && width == 1:
		n.putBucket(first, makeBucket(items))
	case width == 1:
		kid := &trieNode{own: gen<<2 | ownsBuckets | ownsKids}
		kid.spread(gen, depth+1, 0, trieSlots, items)
		n.putKid(first, kid)
	default:
		middle := first + width/2
		low := 0 // how many of items are in the lower half, where they are moved
		for i := range items {
			if slotAt(items[i].hash, depth) < middle {
				items[low], items[i] = items[i], items[low]
				low++
			}
		}
		n.spread(gen, depth, first, width/2, items[:low])
		n.spread(gen, depth, middle, width/2, items[low:])
	}
}

func (e *trieEdit) remove(n *trieNode, depth int) *trieNode {
	slot := slotAt(e.hash, depth)
	if n.kidMap&(1<<slot) != 0 {
		return e.adopt(n, slot, e.remove(n.kids[n.kidOf(slot)], depth+1))
	}
	i := n.bucketOf(slot)
	k, _ := n.buckets[i].find(tagOf(e.hash), e.owner)
	if k < 0 {
		return n
	}
	n = n.setBucket(e.gen, i, n.buckets[i].splice(k, 1, 0, ""))
	n.merge(slot)
	return n
}

// adopt puts a changed node in its slot, or the bucket that is all there is left in it.
func (e *trieEdit) adopt(n *trieNode, slot int, kid *trieNode) *trieNode {
	if kid.kidMap != 0 || len(kid.buckets) > 1 {
		return n.setKid(e.gen, n.kidOf(slot), kid)
	}
	n = n.mine(e.gen)
	n.cutKid(slot)
	n.putBucket(slot, kid.buckets[0])
	n.merge(slot)
	return n
}

// merge joins the bucket of a slot, of a node that is being edited, with the one
// beside it that it was split from, for as long as both fit into one.
func (n *trieNode) merge(slot int) {
	for {
		first, width := n.span(slot)
		if width == trieSlots {
			return
		}
		beside := first ^ width
		if n.kidMap&(1<<beside) != 0 {
			return
		}
		other, w := n.span(beside)
		a, b := n.buckets[n.bucketOf(first)], n.buckets[n.bucketOf(other)]
		if w != width || !fits(a.len()+b.len(), a.octets()+b.octets()) {
			return
		}
		n.cutBucket(first)
		n.cutBucket(other)
		n.putBucket(min(first, other), makeBucket(append(a.list(), b.list()...)))
	}
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

func (n *trieNode) setBucket(gen uint64, i int, b bucket) *trieNode {
	n = n.mine(gen)
	if n.own&ownsBuckets == 0 {
		n.buckets = clone(n.buckets)
		n.own |= ownsBuckets
	}
	n.buckets[i] = b
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

// The four below change a node that is mine; they always make new slices.

func (n *trieNode) putBucket(first int, b bucket) {
	n.buckets = insert(n.buckets, n.bucketOf(first)+1, b)
	n.firstMap |= 1 << first
	n.own |= ownsBuckets
}

func (n *trieNode) cutBucket(first int) {
	n.buckets = without(n.buckets, n.bucketOf(first))
	n.firstMap &^= 1 << first
	n.own |= ownsBuckets
}

func (n *trieNode) putKid(slot int, kid *trieNode) {
	n.kids = insert(n.kids, n.kidOf(slot), kid)
	n.kidMap |= 1 << slot
	n.own |= ownsKids
}

func (n *trieNode) cutKid(slot int) {
	n.kids = without(n.kids, n.kidOf(slot))
	n.kidMap &^= 1 << slot
	n.own |= ownsKids
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

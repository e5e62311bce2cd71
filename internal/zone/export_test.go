package zone

import "math/bits"

// What fits into a bucket.
const (
	BucketLeaves = bucketLeaves
	BucketOctets = bucketOctets
)

// NewVersionHashing is NewVersion with another hash, to make owners collide.
func NewVersionHashing(origin Name, hash func(Name) uint64) *Version {
	return &Version{origin: origin, index: newTrie(hash)}
}

// NewBuilderHashing is NewBuilder for such a version.
func NewBuilderHashing(origin Name, hash func(Name) uint64) *Builder {
	return newBuilder(NewVersionHashing(origin, hash).Candidate())
}

// IndexShape returns how many interior nodes and leaves the index has, and an error
// text when it is not in its one proper shape.
func (v *Version) IndexShape() (nodes, leaves int, bad string) {
	var walk func(n *trieNode, depth int) (below, octets int)
	walk = func(n *trieNode, depth int) (below, octets int) {
		nodes++
		if bits.OnesCount32(n.firstMap) != len(n.buckets) || bits.OnesCount32(n.kidMap) != len(n.kids) || len(n.buckets) != cap(n.buckets) || len(n.kids) != cap(n.kids) {
			bad = "slots and slices differ"
			return 0, 0
		}
		beside, size, room := -1, 0, 0 // of the bucket before
		for slot := 0; slot < trieSlots; {
			if n.firstMap&(1<<slot) == 0 && n.kidMap&(1<<slot) == 0 || n.firstMap&n.kidMap != 0 {
				bad = "a slot with neither bucket nor node, or both"
				return below, octets
			}
			if n.kidMap&(1<<slot) != 0 {
				m, o := walk(n.kids[n.kidOf(slot)], depth+1)
				below, octets = below+m, octets+o
				slot++
				beside = -1
				continue
			}
			first, width := n.span(slot)
			b := n.buckets[n.bucketOf(slot)]
			switch {
			case first != slot || bits.OnesCount(uint(width)) != 1 || first%width != 0:
				bad = "a bucket that is not one of two halves"
			case !fits(b.len(), b.octets()) && (depth < trieDepth-1 || width > 1):
				bad = "a bucket that is too full"
			case beside == width && first/width%2 == 1 && fits(size+b.len(), room+b.octets()):
				bad = "two buckets that should be one"
			}
			b.all(func(l leaf) bool {
				if s := slotAt(v.index.hash(l.owner()), depth); s < first || s >= first+width {
					bad = "a leaf in the wrong bucket"
				}
				return true
			})
			beside, size, room = width, b.len(), b.octets()
			below, octets = below+b.len(), octets+b.octets()
			slot += width
		}
		if depth > 0 && fits(below, octets) {
			bad = "a node that need not be"
		}
		return below, octets
	}
	leaves, _ = walk(v.index.root, 0)
	return nodes, leaves, bad
}

// Walks returns the counts that let Lookup leave out walks.
func (v *Version) Walks() (cuts, dnames, wildcards int) { return v.cuts, v.dnames, v.wildcards }

// Places numbers owners as a plan of many does.
func Places(expected int) func(Name) (at int, added bool) { return newPlaces(expected).of }

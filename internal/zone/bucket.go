package zone

import "strings"

// bucket is the leaves of owners whose hashes begin alike, in one heap object without
// pointers. Format: how many there are (4 octets, the lowest first), a tag for each (one
// octet of its hash), where each begins (4 octets each), then one leaf after the other.
// The empty string is the bucket without leaves.
type bucket string

// What a bucket holds at most, unless it is one leaf or the hashes are equal. More
// make fewer objects for the garbage collector to visit; fewer make less to copy at
// a change, which a neighbour with long TXT records must not make dear.
const (
	bucketLeaves = 32
	bucketOctets = 8 << 10
)

// fits reports whether so many leaves of so many octets together go into one bucket.
func fits(leaves, octets int) bool {
	return leaves <= 1 || leaves <= bucketLeaves && octets <= bucketOctets
}

// tagOf is the octet of a hash by which most owners of a bucket differ. Its bits
// choose slots only at the deepest levels.
func tagOf(h uint64) byte { return byte(h >> 56) }

func bucketHead(n int) int { return 4 + 5*n }

func (b bucket) len() int {
	if b == "" {
		return 0
	}
	return le32(string(b))
}

// octets is the length of the leaves.
func (b bucket) octets() int {
	if b == "" {
		return 0
	}
	return len(b) - bucketHead(b.len())
}

func (b bucket) tag(i int) byte { return b[4+i] }

// offset is where the i-th of n leaves begins, or the last ends.
func (b bucket) offset(n, i int) int {
	if i == n {
		return len(b)
	}
	return le32(string(b[4+n+4*i:]))
}

func (b bucket) at(n, i int) leaf { return leaf(b[b.offset(n, i):b.offset(n, i+1)]) }

// find returns the place of an owner's leaf, and the leaf; -1 when there is none.
func (b bucket) find(tag byte, owner Name) (int, leaf) {
	n := b.len()
	for i := 0; i < n; i++ {
		k := strings.IndexByte(string(b[4+i:4+n]), tag)
		if k < 0 {
			break
		}
		i += k
		if l := b.at(n, i); l.is(owner) {
			return i, l
		}
	}
	return -1, ""
}

// all calls yield for each leaf until it returns false.
func (b bucket) all(yield func(leaf) bool) bool {
	n := b.len()
	for i := range n {
		if !yield(b.at(n, i)) {
			return false
		}
	}
	return true
}

// splice puts l, if not empty, in the place of drop leaves from the i-th on.
func (b bucket) splice(i, drop int, tag byte, l leaf) bucket {
	n := b.len()
	m := n - drop
	if l != "" {
		m++
	}
	if m == 0 {
		return ""
	}
	begin, from, to := len(b), len(b), len(b) // of the leaves, and of what goes
	if n > 0 {
		begin, from, to = b.offset(n, 0), b.offset(n, i), b.offset(n, i+drop)
	}
	moved := bucketHead(m) - begin
	w := newBucketWriter(m, len(b)-begin-(to-from)+len(l))
	if n > 0 {
		w.WriteString(string(b[4 : 4+i]))
	}
	if l != "" {
		w.WriteByte(tag)
	}
	if n > 0 {
		w.WriteString(string(b[4+i+drop : 4+n]))
	}
	for k := range i {
		w.offset(b.offset(n, k) + moved)
	}
	if l != "" {
		w.offset(from + moved)
	}
	for k := i + drop; k < n; k++ {
		w.offset(b.offset(n, k) + moved + len(l) - (to - from))
	}
	w.flush()
	w.WriteString(string(b[begin:from]))
	w.WriteString(string(l))
	w.WriteString(string(b[to:]))
	return bucket(w.String())
}

// hashed is a leaf with its owner's hash, or for a bucket that is not to be split with
// the tag alone.
type hashed struct {
	hash uint64
	tag  byte
	leaf leaf
}

// list returns the leaves without their hashes.
func (b bucket) list() []hashed {
	n := b.len()
	items := make([]hashed, n, n+1)
	for i := range n {
		items[i] = hashed{tag: b.tag(i), leaf: b.at(n, i)}
	}
	return items
}

func octets(items []hashed) (n int) {
	for _, x := range items {
		n += len(x.leaf)
	}
	return n
}

func makeBucket(items []hashed) bucket {
	if len(items) == 0 {
		return ""
	}
	w := newBucketWriter(len(items), octets(items))
	for _, x := range items {
		w.WriteByte(x.tag)
	}
	at := bucketHead(len(items))
	for _, x := range items {
		w.offset(at)
		at += len(x.leaf)
	}
	w.flush()
	for _, x := range items {
		w.WriteString(string(x.leaf))
	}
	return bucket(w.String())
}

// bucketWriter writes a bucket in one allocation.
type bucketWriter struct {
	strings.Builder
	room [4 * (bucketLeaves + 1)]byte
	used int
}

// newBucketWriter begins a bucket of n leaves that are size octets together.
func newBucketWriter(n, size int) *bucketWriter {
	w := new(bucketWriter)
	w.Grow(bucketHead(n) + size)
	w.offset(n)
	w.flush()
	return w
}

// offset writes four octets, at the latest when flush is called.
func (w *bucketWriter) offset(n int) {
	if w.used == len(w.room) {
		w.flush()
	}
	o := w.room[w.used : w.used+4]
	o[0], o[1], o[2], o[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
	w.used += 4
}

func (w *bucketWriter) flush() {
	w.Write(w.room[:w.used])
	w.used = 0
}

func le32(s string) int {
	_ = s[3]
	return int(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24)
}

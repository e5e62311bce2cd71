package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"syscall"
)

// bbolt believes its file: a page number or an offset that is wrong makes it
// panic, in goroutines of its own too, or read outside the mapping, which ends the
// process. verify walks the pages once with every step checked, before bbolt is let near them.
// Reading the whole file in order also warms the page cache for Load.
//
// The layout is bbolt's internal/common: page.go, meta.go and inode.go of v1.5.0,
// in the machine's byte order.

const (
	pageHeader  = 16 // id 8, flags 2, count 2, overflow 4
	elementSize = 16 // of branch (pos 4, ksize 4, pgid 8) and leaf (flags, pos, ksize, vsize)
	bucketSize  = 16 // root pgid 8, sequence 8; an inline page follows when root is 0
	metaSize    = 64

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10

	leafBucket = 0x01 // in a leaf element's flags: the value is a bucket

	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = ^uint64(0)
)

var native = binary.NativeEndian

// meta is one of the two pages that say where everything else is.
type meta struct {
	pageSize uint32
	root     uint64
	freelist uint64
	pages    uint64 // one past the highest page in use
	txid     uint64
}

// readMeta reads the meta at the start of page; ok is false when it is not valid.
func readMeta(page []byte) (m meta, ok bool) {
	if len(page) < pageHeader+metaSize {
		return meta{}, false
	}
	b := page[pageHeader:]
	if native.Uint32(b) != boltMagic || native.Uint32(b[4:]) != boltVersion {
		return meta{}, false
	}
	h := fnv.New64a()
	h.Write(b[:56])
	if h.Sum64() != native.Uint64(b[56:]) {
		return meta{}, false
	}
	return meta{
		pageSize: native.Uint32(b[8:]),
		root:     native.Uint64(b[16:]),
		freelist: native.Uint64(b[32:]),
		pages:    native.Uint64(b[40:]),
		txid:     native.Uint64(b[48:]),
	}, true
}

// verify checks the structure of the file that bbolt would read: the pages of
// the newest valid meta. An empty file is in order: bbolt makes it a database. whole
// is false when one of the two metas is not valid, and the file thus in the state
// before a commit that was cut short, or worse.
func verify(f *os.File) (whole bool, err error) {
	fi, err := f.Stat()
	if err != nil {
		return false, err
	}
	if fi.Size() == 0 {
		return true, nil
	}
	v := verifier{size: uint64(fi.Size())}
	if whole, err = v.findMeta(f); err != nil {
		return false, err
	}
	if v.meta.pages*v.pageSize > v.size || v.meta.pages > v.size {
		return false, fmt.Errorf("%w: cut off at %d octets, %d pages of %d are in use", errDamaged, v.size, v.meta.pages, v.pageSize)
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(v.meta.pages*v.pageSize), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return false, fmt.Errorf("mapping: %w", err)
	}
	defer syscall.Munmap(data)
	readAhead(data)
	v.data = data
	return whole, guard(v.tree)
}

type verifier struct {
	size     uint64
	pageSize uint64
	meta     meta
	data     []byte
	seen     []uint64 // bit per page: reachable
	free     []uint64 // bit per page: on the freelist
	inUse    uint64
}

// findMeta chooses as bbolt does: the valid one of the higher transaction.
func (v *verifier) findMeta(f *os.File) (both bool, err error) {
	buf := make([]byte, pageHeader+metaSize)
	var first, second meta
	var ok0, ok1 bool
	switch _, err := f.ReadAt(buf, 0); {
	case err == nil:
		first, ok0 = readMeta(buf)
	case !errors.Is(err, io.EOF):
		return false, err
	}
	sizes := []uint32{first.pageSize}
	if !ok0 {
		sizes = sizes[:0]
		for s := uint32(1 << 10); s <= 1<<24; s <<= 1 {
			sizes = append(sizes, s)
		}
	}
	for _, s := range sizes {
		if _, err := f.ReadAt(buf, int64(s)); errors.Is(err, io.EOF) {
			continue
		} else if err != nil {
			return false, err
		}
		if second, ok1 = readMeta(buf); ok1 && second.pageSize == s {
			break
		}
		ok1 = false
	}
	switch {
	case ok0 && (!ok1 || first.txid >= second.txid):
		v.meta = first
	case ok1:
		v.meta = second
	default:
		return false, fmt.Errorf("%w, or not a database: neither of its two first pages is valid", errDamaged)
	}
	v.pageSize = uint64(v.meta.pageSize)
	if v.pageSize < 1<<10 || v.pageSize&(v.pageSize-1) != 0 || v.meta.pages < 4 {
		return false, fmt.Errorf("%w: %d pages of %d octets", errDamaged, v.meta.pages, v.pageSize)
	}
	return ok0 && ok1, nil
}

func (v *verifier) tree() error {
	v.seen = make([]uint64, v.meta.pages/64+1)
	v.free = make([]uint64, v.meta.pages/64+1)
	if err := v.freelist(); err != nil {
		return err
	}
	v.inUse += 2 // the metas
	if err := v.page(v.meta.root, nil, nil, 0); err != nil {
		return err
	}
	freed := uint64(0)
	for i, w := range v.free {
		if w&v.seen[i] != 0 {
			return fmt.Errorf("%w: a page near %d is both in use and free", errDamaged, i*64)
		}
		for ; w != 0; w &= w - 1 {
			freed++
		}
	}
	if v.meta.freelist != noFreelist && v.inUse+freed != v.meta.pages {
		return fmt.Errorf("%w: of %d pages %d are in use and %d free", errDamaged, v.meta.pages, v.inUse, freed)
	}
	return nil
}

// claim takes a page and its overflow pages into use and returns its octets.
func (v *verifier) claim(id uint64) ([]byte, error) {
	if id < 2 || id >= v.meta.pages {
		return nil, fmt.Errorf("%w: page %d of %d", errDamaged, id, v.meta.pages)
	}
	head := v.data[id*v.pageSize:]
	if got := native.Uint64(head); got != id {
		return nil, fmt.Errorf("%w: page %d says it is page %d", errDamaged, id, got)
	}
	n := 1 + uint64(native.Uint32(head[12:]))
	if n > v.meta.pages-id {
		return nil, fmt.Errorf("%w: page %d with %d more of %d", errDamaged, id, n-1, v.meta.pages)
	}
	for i := id; i < id+n; i++ {
		if v.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, fmt.Errorf("%w: page %d is used twice", errDamaged, i)
		}
		v.seen[i/64] |= 1 << (i % 64)
	}
	v.inUse += n
	return head[:n*v.pageSize], nil
}

func (v *verifier) freelist() error {
	if v.meta.freelist == noFreelist {
		return nil
	}
	p, err := v.claim(v.meta.freelist)
	if err != nil {
		return fmt.Errorf("free list: %w", err)
	}
	if native.Uint16(p[8:]) != flagFreelist {
		return fmt.Errorf("%w: page %d is not the free list", errDamaged, v.meta.freelist)
	}
	count, ids := uint64(native.Uint16(p[10:])), p[pageHeader:]
	if count == 0xFFFF { // then the first entry is the count
		count, ids = native.Uint64(ids), ids[8:]
	}
	if count > uint64(len(ids))/8 {
		return fmt.Errorf("%w: free list of %d pages", errDamaged, count)
	}
	last := uint64(1)
	for i := range count {
		id := native.Uint64(ids[8*i:])
		if id <= last || id >= v.meta.pages {
			return fmt.Errorf("%w: free list holds page %d after %d of %d", errDamaged, id, last, v.meta.pages)
		}
		v.free[id/64] |= 1 << (id % 64)
		last = id
	}
	return nil
}

// deepest is far below any tree that fits in a file of 2^48 pages.
const deepest = 64

// page checks the tree below a page. Keys must be at least low and below high.
func (v *verifier) page(id uint64, low, high []byte, depth int) error {
	p, err := v.claim(id)
	if err != nil {
		return err
	}
	if depth > deepest {
		return fmt.Errorf("%w: page %d is %d deep", errDamaged, id, depth)
	}
	if err := v.elements(id, p, low, high, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// elements checks what a page holds; p may also be an inline page.
func (v *verifier) elements(id uint64, p, low, high []byte, depth int) error {
	flags, count := native.Uint16(p[8:]), uint64(native.Uint16(p[10:]))
	if flags != flagBranch && flags != flagLeaf {
		return fmt.Errorf("%w: neither branch nor leaf (%#x)", errDamaged, flags)
	}
	if flags == flagBranch && count == 0 {
		return fmt.Errorf("%w: empty branch", errDamaged)
	}
	table := pageHeader + count*elementSize
	if table > uint64(len(p)) {
		return fmt.Errorf("%w: %d elements", errDamaged, count)
	}
	element := func(i uint64) (e, key, value []byte, err error) {
		at := pageHeader + i*elementSize
		e = p[at : at+elementSize]
		var pos, ksize, vsize uint64
		if flags == flagBranch {
			pos, ksize = uint64(native.Uint32(e)), uint64(native.Uint32(e[4:]))
		} else {
			pos, ksize, vsize = uint64(native.Uint32(e[4:])), uint64(native.Uint32(e[8:])), uint64(native.Uint32(e[12:]))
		}
		from := at + pos
		if from < table || from+ksize+vsize > uint64(len(p)) {
			return nil, nil, nil, fmt.Errorf("%w: element %d reaches out of the page", errDamaged, i)
		}
		return e, p[from : from+ksize], p[from+ksize : from+ksize+vsize], nil
	}
	prev := low
	for i := range count {
		e, key, value, err := element(i)
		if err != nil {
			return err
		}
		if c := bytes.Compare(prev, key); (i > 0 && c >= 0) || (i == 0 && prev != nil && c > 0) || (high != nil && bytes.Compare(key, high) >= 0) {
			return fmt.Errorf("%w: key %d is out of order", errDamaged, i)
		}
		prev = key
		switch {
		case flags == flagBranch:
			next := high
			if i+1 < count {
				if _, next, _, err = element(i + 1); err != nil {
					return err
				}
			}
			if err := v.page(native.Uint64(e[8:]), key, next, depth+1); err != nil {
				return err
			}
		case native.Uint32(e)&leafBucket != 0:
			if err := v.bucket(value, depth); err != nil {
				return fmt.Errorf("bucket %q: %w", key, err)
			}
		}
	}
	return nil
}

func (v *verifier) bucket(value []byte, depth int) error {
	if len(value) < bucketSize {
		return fmt.Errorf("%w: header of %d octets", errDamaged, len(value))
	}
	if root := native.Uint64(value); root != 0 {
		return v.page(root, nil, nil, depth+1)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || native.Uint16(inline[8:]) != flagLeaf || native.Uint64(inline) != 0 {
		return fmt.Errorf("%w: inline page", errDamaged)
	}
	return v.elements(0, inline, nil, nil, depth+1)
}

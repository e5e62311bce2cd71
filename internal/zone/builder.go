package zone

// Builder makes a Version of nodes that are all there, as when a zone is loaded. It makes
// each bucket of the index once; to Put a million nodes into a Candidate writes
// each sixteen times.
type Builder struct {
	c     *Candidate
	items []hashed
	above map[Name]*ancestor // of owners that are not right below the apex
}

// ancestor is a name between an owner and the apex.
type ancestor struct {
	children uint64
	item     int // its place in items, -1 for an empty non-terminal
}

// NewBuilder returns a Builder without any node.
func NewBuilder(origin Name) *Builder { return newBuilder(NewVersion(origin).Candidate()) }

// newBuilder is for a Candidate without any owner.
func newBuilder(c *Candidate) *Builder { return &Builder{c: c} }

// Put adds an owner's whole node; it checks nothing. An owner is put once.
func (b *Builder) Put(owner Name, n Node) {
	if n == "" {
		return
	}
	v := &b.c.now
	b.c.count(owner, n, +1)
	if owner == v.origin {
		v.setSOA(n)
	} else if owner.IsWildcard() {
		v.wildcards++
	}
	b.add(makeLeaf(0, owner, n), owner)
	if parent, ok := b.parent(owner); ok {
		b.ancestor(parent).children++
	}
}

func (b *Builder) add(l leaf, owner Name) {
	h := b.c.now.index.hash(owner)
	b.items = append(b.items, hashed{hash: h, tag: tagOf(h), leaf: l})
}

// parent is the name above owner; false when it is the apex, which counts no children.
func (b *Builder) parent(owner Name) (Name, bool) {
	origin := b.c.now.origin
	if owner == origin {
		return "", false
	}
	p := owner.Parent()
	return p, p != origin && p.Below(origin)
}

// ancestor returns the entry of a name, whose own ancestors then have one too.
func (b *Builder) ancestor(name Name) *ancestor {
	if a := b.above[name]; a != nil {
		return a
	}
	if b.above == nil {
		b.above = make(map[Name]*ancestor)
	}
	a := &ancestor{item: -1}
	b.above[name] = a
	if parent, ok := b.parent(name); ok {
		b.ancestor(parent)
	}
	return a
}

// Version is the zone of the nodes put. The Builder must not be used afterwards.
func (b *Builder) Version() *Version {
	b.finish()
	return b.c.Version()
}

func (b *Builder) finish() {
	v := &b.c.now
	if len(b.above) > 0 {
		for i := range b.items {
			if a := b.above[b.items[i].leaf.owner()]; a != nil {
				a.item = i
			}
		}
		// An empty non-terminal is there because something is below it.
		for name, a := range b.above {
			if a.item >= 0 {
				continue
			}
			if name.IsWildcard() {
				v.wildcards++
			}
			if parent, ok := b.parent(name); ok {
				b.above[parent].children++
			}
		}
		for name, a := range b.above {
			if a.item < 0 {
				b.add(makeLeaf(a.children, name, ""), name)
			} else {
				b.items[a.item].leaf = makeLeaf(a.children, name, b.items[a.item].leaf.node())
			}
		}
	}
	root := &trieNode{own: v.gen<<2 | ownsBuckets | ownsKids}
	root.spread(v.gen, 0, 0, trieSlots, b.items)
	v.index.root = root
	b.items, b.above = nil, nil
}

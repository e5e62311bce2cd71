package policy

import "reflect"

// Changes says by name what differs between two policies. Order is that of the
// files.
type Changes struct {
	Tokens Delta `json:"tokens"`
	Keys   Delta `json:"keys"`
	Hooks  Delta `json:"hooks"`
}

// Delta is one kind of block's share of Changes.
type Delta struct {
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Empty reports whether nothing differs.
func (d Delta) Empty() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Empty reports whether nothing differs.
func (c Changes) Empty() bool { return c.Tokens.Empty() && c.Keys.Empty() && c.Hooks.Empty() }

// Diff compares two policies by what they say, not how it is written: moving or
// commenting a block is no change. Either may be nil.
func Diff(old, new *Policy) Changes {
	id := func(i *Identity) string { return i.ID }
	return Changes{
		Tokens: delta(old.Tokens(), new.Tokens(), id, (*Identity).equal),
		Keys:   delta(old.Keys(), new.Keys(), id, (*Identity).equal),
		Hooks:  delta(old.Hooks(), new.Hooks(), func(h *Hook) string { return h.Name }, (*Hook).equal),
	}
}

func delta[T any](old, new []T, name func(T) string, equal func(a, b T) bool) Delta {
	var d Delta
	before := make(map[string]T, len(old))
	for _, o := range old {
		before[name(o)] = o
	}
	for _, n := range new {
		switch o, ok := before[name(n)]; {
		case !ok:
			d.Added = append(d.Added, name(n))
		case !equal(o, n):
			d.Changed = append(d.Changed, name(n))
		}
		delete(before, name(n))
	}
	for _, o := range old {
		if _, gone := before[name(o)]; gone {
			d.Removed = append(d.Removed, name(o))
		}
	}
	return d
}

func (h *Hook) equal(g *Hook) bool {
	a, b := *h, *g
	a.Line, b.Line = 0, 0
	return reflect.DeepEqual(a, b)
}

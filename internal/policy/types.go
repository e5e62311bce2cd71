package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// typeSet is a set of RR types, ANY standing for the deletion of a whole name.
// The zero value is empty.
type typeSet struct {
	every bool     // the word *
	types []uint16 // sorted, without duplicates; nil with every; shared, never changed
}

// addresses is the set of a line that names no type.
var addresses = typeSet{types: []uint16{dns.TypeA, dns.TypeAAAA}}

func (s typeSet) has(typ uint16) bool {
	if s.every {
		return true
	}
	_, ok := slices.BinarySearch(s.types, typ)
	return ok
}

func (s typeSet) union(t typeSet) typeSet {
	switch {
	case s.every || len(t.types) == 0 && !t.every:
		return s
	case t.every || len(s.types) == 0:
		return t
	}
	u := slices.Concat(s.types, t.types)
	slices.Sort(u)
	return typeSet{types: slices.Compact(u)}
}

func (s typeSet) equal(t typeSet) bool { return s.every == t.every && slices.Equal(s.types, t.types) }

// String returns the set as a line of the policy file spells it.
func (s typeSet) String() string {
	if s.every {
		return "*"
	}
	words := make([]string, len(s.types))
	for i, t := range s.types {
		words[i] = zone.TypeString(t)
	}
	return strings.Join(words, " ")
}

// parseTypes reads the types of a line; none means addresses.
func parseTypes(words []string) (typeSet, error) {
	if len(words) == 0 {
		return addresses, nil
	}
	var s typeSet
	for _, w := range words {
		if w == "*" {
			s.every = true
			continue
		}
		t, ok := zone.ParseType(w)
		switch {
		case !ok && strings.Contains(w, "."):
			return typeSet{}, fmt.Errorf("%s is not a type of record: a line names one owner, then types", quote(w))
		case !ok:
			return typeSet{}, fmt.Errorf("%s is not a type of record", quote(w))
		case t != dns.TypeANY && !isData(t):
			return typeSet{}, fmt.Errorf("%s is not a type that a zone can hold", quote(w))
		}
		s.types = append(s.types, t)
	}
	if s.every {
		return typeSet{every: true}, nil
	}
	slices.Sort(s.types)
	s.types = slices.Compact(s.types)
	if s.equal(addresses) {
		return addresses, nil // share it: most lines of a large file say this
	}
	return s, nil
}

// isData reports whether records of the type can be in a zone: not the Q and
// meta types of RFC 6895, section 3.1, nor OPT or the reserved ends.
func isData(t uint16) bool {
	return t != dns.TypeNone && t != dns.TypeOPT && t != dns.TypeReserved && (t < 128 || t > 255)
}

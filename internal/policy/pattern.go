package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// NamePattern is an OWNER of the policy file: one name, or the names below one.
type NamePattern struct {
	Name  zone.Name
	Below bool // names below Name, not Name itself
}

// ParsePattern reads an OWNER: *.x is the names below x, anything else the one
// name that ParseOwner reads, where \*.x spells the wildcard record itself.
func ParsePattern(s string) (NamePattern, error) {
	if s == "*" {
		// Most likely a type that lost its name; the dot makes it deliberate.
		return NamePattern{}, errors.New(`"*" is not a name: every name there is would be "*."`)
	}
	rest, below := strings.CutPrefix(s, "*.")
	if !below {
		n, err := ParseOwner(s)
		return NamePattern{Name: n}, err
	}
	if rest == "" {
		return NamePattern{Name: zone.Root, Below: true}, nil
	}
	if rest == "." {
		return NamePattern{}, fmt.Errorf("name %s: %w", quote(s), zone.ErrLabelEmpty)
	}
	if strings.HasPrefix(rest, "*") {
		return NamePattern{}, fmt.Errorf("name %s: only the first label may be *", quote(s))
	}
	n, err := ParseOwner(rest)
	if err != nil {
		return NamePattern{}, fmt.Errorf("name %s: %w", quote(s), errors.Unwrap(err))
	}
	return NamePattern{Name: n, Below: true}, nil
}

// Matches reports whether the pattern covers n. Names with a label "*" below x
// are not covered by *.x: they are, or make exist, the wildcard that answers for
// other names (RFC 4592, sections 2.1.1 and 2.2.2).
func (p NamePattern) Matches(n zone.Name) bool {
	if !p.Below {
		return n == p.Name && n != ""
	}
	if !n.Below(p.Name) {
		return false
	}
	for ; len(n) > len(p.Name); n = n.Parent() {
		if n.IsWildcard() {
			return false
		}
	}
	return true
}

// String returns the pattern as the policy file spells it; ParsePattern reads it
// back.
func (p NamePattern) String() string {
	switch {
	case p.Below && p.Name == zone.Root:
		return "*."
	case p.Below:
		return "*." + ownerText(p.Name)
	}
	return ownerText(p.Name)
}

// ownerText writes a name so that both the lexer of the policy file and
// ParseOwner read it back: whatever is not plain is escaped.
func ownerText(n zone.Name) string {
	if n == zone.Root {
		return "."
	}
	var b strings.Builder
	for ; len(n) > 1; n = n.Parent() {
		for _, c := range []byte(n.Label()) {
			switch {
			case isPlain(c):
				b.WriteByte(c)
			case c == '*':
				b.WriteString(`\*`)
			default:
				fmt.Fprintf(&b, `\%03d`, c)
			}
		}
		b.WriteByte('.')
	}
	return b.String()
}

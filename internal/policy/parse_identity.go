package policy

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
)

const hashPrefix = "sha256:"

func (p *Policy) parseToken(r *lines, names map[string]*Identity) error {
	args, err := r.header("token NAME sha256:HEX {", 2)
	if err != nil {
		return err
	}
	i := &Identity{ID: args[0], Kind: Token, Line: r.no}
	if err := checkBlockName(i.ID); err != nil {
		return r.errorf("token: %s", err)
	}
	what := "token " + i.ID
	if other, ok := names[i.ID]; ok {
		return r.errorf("%s: the name is taken by line %d", what, other.Line)
	}
	if i.hash, err = parseHash(args[1]); err != nil {
		return r.errorf("%s: %s", what, err)
	}
	if other, ok := p.byHash[i.hash]; ok {
		return r.errorf("%s: the hash is that of token %s, line %d", what, other.ID, other.Line)
	}
	if err := r.block(what, i.property); err != nil {
		return err
	}
	p.tokens = append(p.tokens, i)
	p.byHash[i.hash], names[i.ID] = i, i
	return nil
}

func (p *Policy) parseKey(r *lines) error {
	args, err := r.header("key NAME {", 1)
	if err != nil {
		return err
	}
	name, err := ParseOwner(args[0])
	switch {
	case err != nil:
		return r.errorf("key: %s", err)
	case name.IsWildcard() || name == zone.Root:
		return r.errorf("key: %s cannot be the name of a key", quote(args[0]))
	}
	i := &Identity{ID: name.String(), Kind: Key, Line: r.no}
	what := "key " + i.ID
	if other, ok := p.byKey[name]; ok {
		return r.errorf("%s: the name is taken by line %d", what, other.Line)
	}
	self := false
	err = r.block(what, func(property string, args []string) error {
		if property != "self" {
			return i.property(property, args)
		}
		if self {
			return errTwice(property)
		}
		self = true
		types, err := parseTypes(args)
		if err != nil {
			return fmt.Errorf("self: %w", err)
		}
		i.grant(NamePattern{Name: name}, types)
		return nil
	})
	if err != nil {
		return err
	}
	p.keys = append(p.keys, i)
	p.byKey[name] = i
	return nil
}

// property reads one line of a token or key block.
func (i *Identity) property(name string, args []string) error {
	err := error(nil)
	switch {
	case name == "update":
		err = i.parseUpdate(args)
	case name == "from":
		err = i.parseFrom(args)
	case name == "expires":
		err = i.parseExpires(args)
	case name == "reload" && i.Kind == Token:
		if i.Reload {
			return errTwice(name)
		}
		if len(args) > 0 {
			err = errors.New("takes no argument")
		}
		i.Reload = true
	case i.Kind == Token:
		return fmt.Errorf("unknown property %s: expected update, from, expires or reload", quote(name))
	default:
		return fmt.Errorf("unknown property %s: expected update, self, from or expires", quote(name))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (i *Identity) parseUpdate(args []string) error {
	if len(args) == 0 {
		return errors.New("expected OWNER [TYPES...]")
	}
	owner, err := ParsePattern(args[0])
	if err != nil {
		return err
	}
	types, err := parseTypes(args[1:])
	if err != nil {
		return err
	}
	i.grant(owner, types)
	return nil
}

func (i *Identity) parseFrom(args []string) error {
	if len(args) == 0 {
		return errors.New("expected ADDRESS|CIDR...")
	}
	for _, a := range args {
		p, err := parsePrefix(a)
		if err != nil {
			return err
		}
		i.From = append(i.From, p)
	}
	return nil
}

// parsePrefix reads an address or CIDR. What could be meant in two ways is
// refused: bits beyond the mask, IPv4 in an IPv6 coat, an interface.
func parsePrefix(s string) (netip.Prefix, error) {
	var p netip.Prefix
	if strings.Contains(s, "/") {
		var err error
		if p, err = netip.ParsePrefix(s); err != nil {
			return p, fmt.Errorf("%s is not a CIDR", quote(s))
		}
	} else {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return p, fmt.Errorf("%s is not an address", quote(s))
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	switch {
	case p.Addr().Is4In6():
		return p, fmt.Errorf("%s: write the IPv4 address as such", quote(s))
	case p != p.Masked():
		return p, fmt.Errorf("%s has bits beyond its length: write %s", quote(s), p.Masked())
	}
	return p, nil
}

func (i *Identity) parseExpires(args []string) error {
	switch {
	case !i.Expires.IsZero():
		return errors.New("given twice")
	case len(args) != 1:
		return errors.New("expected one date")
	}
	t, err := time.Parse(time.DateOnly, args[0])
	if err != nil {
		t, err = time.Parse(time.RFC3339, args[0])
	}
	if err != nil || t.Year() < 1970 {
		return fmt.Errorf("%s is not a date such as 2027-06-30 or 2027-06-30T12:00:00Z", quote(args[0]))
	}
	i.Expires = t.UTC()
	return nil
}

// parseHash reads sha256:HEX. Its errors do not show the text: it may be the
// token itself.
func parseHash(s string) (hash [32]byte, err error) {
	digits, ok := strings.CutPrefix(s, hashPrefix)
	switch {
	case !ok && strings.HasPrefix(s, tokenPrefix):
		return hash, errors.New("expected the hash of the token, sha256: and 64 hex digits, not the token itself, which is now known to whoever read this file")
	case !ok:
		return hash, errors.New("expected sha256: and 64 hex digits")
	case len(digits) != hex.EncodedLen(len(hash)):
		return hash, fmt.Errorf("expected 64 hex digits after sha256:, not %d characters", len(digits))
	}
	if _, err := hex.Decode(hash[:], []byte(digits)); err != nil {
		return hash, errors.New("expected 64 hex digits after sha256:, not other characters")
	}
	return hash, nil
}

// checkBlockName checks the name of a token or hook. It goes into the log, the
// environment of hooks and the labels of metrics.
func checkBlockName(s string) error {
	if len(s) >= MinTokenLength && strings.HasPrefix(s, tokenPrefix) {
		return fmt.Errorf("%s: a token cannot be a name", quote(s))
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '-' && c != '_' && c != '.') {
			return errBlockName(s)
		}
	}
	if s == "" || len(s) > 63 {
		return errBlockName(s)
	}
	return nil
}

func errBlockName(s string) error {
	return fmt.Errorf("%s is not a name: expected at most 63 letters, digits, - _ and ., a letter or digit first", quote(s))
}

func errTwice(property string) error { return fmt.Errorf("%s: given twice", property) }

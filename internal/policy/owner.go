package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Errors of ParseOwner beside those of zone.ParseName. They are wrapped with the
// name.
var (
	ErrNameEncoding = errors.New("not UTF-8")
	ErrNameOctet    = errors.New("octets that are not visible ASCII are refused, escaped or not")
	ErrNameIDNA     = errors.New("not allowed by IDNA2008")
)

// ParseOwner reads a name as people and clients write it: with or without the
// final dot, in any case, with U-labels, which become A-labels. It is stricter
// than zone.ParseName, because a name that reaches it was typed: letters, digits,
// hyphen and underscore stand for themselves, a lone * may be the first label,
// and any other visible character must be escaped (RFC 1035, section 5.1), so
// that "a b.example.org" or "https://a.example.org" is an error and no name.
func ParseOwner(s string) (zone.Name, error) {
	n, err := parseOwner(s)
	if err != nil {
		return "", fmt.Errorf("name %s: %w", quote(s), err)
	}
	return n, nil
}

func parseOwner(s string) (zone.Name, error) {
	if len(s) > 4*zone.MaxNameLength { // every octet written as \DDD
		return "", zone.ErrNameLong
	}
	if !utf8.ValidString(s) {
		return "", ErrNameEncoding
	}
	ascii, err := plainASCII(s)
	if err != nil {
		return "", err
	}
	n, err := zone.ParseName(ascii)
	if err != nil {
		return "", err
	}
	for m := n; len(m) > 1; m = m.Parent() {
		l := m.Label()
		for i := 0; i < len(l); i++ {
			if l[i] <= ' ' || l[i] > '~' {
				return "", ErrNameOctet
			}
		}
		if strings.HasPrefix(l, "xn--") {
			if err := checkALabel(l); err != nil {
				return "", err
			}
		}
	}
	return n, nil
}

// plainASCII converts U-labels and refuses characters that want an escape.
func plainASCII(s string) (string, error) {
	var out strings.Builder
	start, escaped, wide := 0, false, false // of the open label
	flush := func(end int) error {
		label := s[start:end]
		if !wide {
			out.WriteString(label)
			return nil
		}
		if escaped {
			return fmt.Errorf("label %s mixes escapes and U-label", quote(label))
		}
		a, err := profile.ToASCII(label)
		if err != nil || strings.Contains(a, ".") {
			return fmt.Errorf("label %s is %w", quote(label), ErrNameIDNA)
		}
		out.WriteString(a)
		return nil
	}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '.' || isWideDot(r):
			if err := flush(i); err != nil {
				return "", err
			}
			out.WriteByte('.')
			start, escaped, wide = i+size, false, false
		case r == '\\':
			escaped = true
			if i+1 < len(s) {
				if s[i+1] >= utf8.RuneSelf {
					return "", zone.ErrNameEscape
				}
				size = 2
			}
		case r >= utf8.RuneSelf:
			wide = true
		case r < ' ' || r == 0x7f:
			return "", ErrNameOctet
		case r == '*' && i == 0 && (len(s) == 1 || s[1] == '.'):
		case !isPlain(byte(r)):
			return "", fmt.Errorf("character %q must be escaped", r)
		}
		i += size
	}
	if err := flush(len(s)); err != nil {
		return "", err
	}
	return out.String(), nil
}

// isPlain reports whether an octet stands for itself in a name.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// isWideDot reports whether r separates labels as a dot does: RFC 5895, section
// 2.4 and UTS #46, section 2.3.
func isWideDot(r rune) bool { return r == 0x3002 || r == 0xff0e || r == 0xff61 }

// profile maps and checks one label at a time. The Bidi rule is thus applied
// within a label (RFC 5893, section 2), not across the name: "_sip" or "*" beside
// a right-to-left label would fail it, and are no text to display.
var profile = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule())

// checkALabel refuses an xn-- label that is not the one A-label of a U-label
// (RFC 5890, section 2.3.2.1). Two spellings of one U-label would be two owners.
func checkALabel(label string) error {
	u, err := profile.ToUnicode(label)
	if err == nil {
		var back string
		back, err = profile.ToASCII(u)
		if back != label {
			err = ErrNameIDNA
		}
	}
	if err != nil {
		return fmt.Errorf("label %s is %w", quote(label), ErrNameIDNA)
	}
	for _, r := range u {
		if !isPValid(r) {
			return fmt.Errorf("label %s: character %q (%U) is %w", quote(label), r, r, ErrNameIDNA)
		}
	}
	return nil
}

// isPValid reports whether IDNA2008 lets a character be in a U-label: letters,
// marks and digits, with the exceptions of RFC 5892, section 2.6. Package idna
// follows UTS #46, which also lets symbols such as emoji pass. The contextual
// rules of the exceptions (RFC 5892, appendix A.3 to A.9) are not applied; those
// of the joiners are, by package idna.
func isPValid(r rune) bool {
	switch r {
	case '-', 0xb7, 0x375, 0x5f3, 0x5f4, 0x6fd, 0x6fe, 0xf0b, 0x3007, 0x30fb, 0x200c, 0x200d:
		return true
	}
	return unicode.In(r, unicode.Ll, unicode.Lo, unicode.Lm, unicode.Mn, unicode.Mc, unicode.Nd)
}

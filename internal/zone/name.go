package zone

import (
	"errors"
	"strings"
)

// MaxNameLength is the longest wire form of a domain name, in octets, the root
// label included. RFC 1035, section 3.1.
const MaxNameLength = 255

// Name is a canonical, absolute domain name: its uncompressed wire form with
// ASCII letters in lower case (RFC 4034, section 6.2). Two names are the same
// owner exactly when they are equal as strings. The zero value is no name.
type Name string

// Root is the name of the DNS root.
const Root Name = "\x00"

// Errors of ParseName. Whoever reports one names the text.
var (
	ErrNameEmpty  = errors.New("empty name")
	ErrLabelEmpty = errors.New("empty label")
	ErrLabelLong  = errors.New("label longer than 63 octets")
	ErrNameLong   = errors.New("name longer than 255 octets")
	ErrNameEscape = errors.New("bad escape")
)

// ParseName reads a name in presentation format (RFC 1035, section 5.1), with or
// without the final dot; it is always taken as absolute.
func ParseName(s string) (Name, error) {
	if s == "" {
		return "", ErrNameEmpty
	}
	if s == "." {
		return Root, nil
	}
	var buf [MaxNameLength + 1]byte
	start, pos := 0, 1 // start: where the open label's length goes
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '.':
			if pos == start+1 {
				return "", ErrLabelEmpty
			}
			buf[start] = byte(pos - start - 1)
			start = pos
			pos++
			if pos > MaxNameLength {
				return "", ErrNameLong
			}
			continue
		case c == '\\':
			switch {
			case i+3 < len(s) && isDigit(s[i+1]) && isDigit(s[i+2]) && isDigit(s[i+3]):
				v := int(s[i+1]-'0')*100 + int(s[i+2]-'0')*10 + int(s[i+3]-'0')
				if v > 255 {
					return "", ErrNameEscape
				}
				c, i = byte(v), i+3
			case i+1 < len(s) && !isDigit(s[i+1]):
				c, i = s[i+1], i+1
			default:
				return "", ErrNameEscape
			}
		}
		if pos-start > 63 {
			return "", ErrLabelLong
		}
		if pos >= MaxNameLength {
			return "", ErrNameLong
		}
		buf[pos] = lower(c)
		pos++
	}
	if pos == start+1 { // the text ended with a dot: the open label is the root
		buf[start] = 0
		return Name(buf[:pos]), nil
	}
	buf[start] = byte(pos - start - 1)
	if pos >= MaxNameLength {
		return "", ErrNameLong
	}
	buf[pos] = 0
	return Name(buf[:pos+1]), nil
}

// MustName is ParseName for names that are part of the program; it panics.
func MustName(s string) Name {
	n, err := ParseName(s)
	if err != nil {
		panic("zone: name " + s + ": " + err.Error())
	}
	return n
}

// nameFromWire takes an uncompressed wire name at the start of b; ok is false
// when there is none.
func nameFromWire(b string) (n Name, ok bool) {
	i := 0
	for i < len(b) && i < MaxNameLength {
		l := int(b[i])
		if l == 0 {
			return Name(lowerString(b[:i+1])), true
		}
		if l > 63 {
			return "", false
		}
		i += l + 1
	}
	return "", false
}

// String returns the presentation format with a final dot, escaped as package
// dns does.
func (n Name) String() string {
	if n == "" {
		return ""
	}
	if n == Root {
		return "."
	}
	var b strings.Builder
	b.Grow(len(n))
	for i := 0; i < len(n) && n[i] != 0; {
		l := int(n[i])
		for _, c := range []byte(n[i+1 : i+1+l]) {
			switch c {
			case '.', ' ', '\'', '@', ';', '(', ')', '"', '\\':
				b.WriteByte('\\')
				b.WriteByte(c)
			default:
				if c < ' ' || c > '~' {
					b.WriteByte('\\')
					b.WriteByte('0' + c/100)
					b.WriteByte('0' + c/10%10)
					b.WriteByte('0' + c%10)
				} else {
					b.WriteByte(c)
				}
			}
		}
		b.WriteByte('.')
		i += l + 1
	}
	return b.String()
}

// Parent returns the name without its first label; the parent of the root is
// the root.
func (n Name) Parent() Name {
	if len(n) <= 1 {
		return Root
	}
	return n[1+int(n[0]):]
}

// Label returns the first label without its length; the root's is empty.
func (n Name) Label() string {
	if len(n) <= 1 {
		return ""
	}
	return string(n[1 : 1+int(n[0])])
}

// Labels counts the labels, the root not included.
func (n Name) Labels() int {
	c := 0
	for i := 0; i < len(n) && n[i] != 0; i += int(n[i]) + 1 {
		c++
	}
	return c
}

// IsWildcard reports whether the first label is a lone asterisk (RFC 4592,
// section 2.1.1).
func (n Name) IsWildcard() bool {
	return len(n) > 1 && n[0] == 1 && n[1] == '*'
}

// Wildcard returns *.n, and false when that would be too long for a name.
func (n Name) Wildcard() (Name, bool) {
	if len(n)+2 > MaxNameLength {
		return "", false
	}
	return "\x01*" + n, true
}

// Within reports whether n is origin or a name below it.
func (n Name) Within(origin Name) bool {
	if len(n) < len(origin) || n[len(n)-len(origin):] != origin {
		return false
	}
	// The suffix must begin at a label: a length octet can also be data.
	cut := len(n) - len(origin)
	for i := 0; i < len(n); i += int(n[i]) + 1 {
		if i == cut {
			return true
		}
		if i > cut || n[i] == 0 {
			return false
		}
	}
	return false
}

// Below reports whether n is a name strictly below origin.
func (n Name) Below(origin Name) bool { return len(n) > len(origin) && n.Within(origin) }

// Compare orders names canonically: by labels from the root down (RFC 4034,
// section 6.1).
func (n Name) Compare(m Name) int {
	var ni, mi [128]uint8
	nl, ml := n.offsets(&ni), m.offsets(&mi)
	for nl > 0 && ml > 0 {
		nl--
		ml--
		a, b := n[ni[nl]:].Label(), m[mi[ml]:].Label()
		if c := strings.Compare(a, b); c != 0 {
			return c
		}
	}
	return nl - ml
}

func (n Name) offsets(at *[128]uint8) int {
	c := 0
	for i := 0; i < len(n) && n[i] != 0; i += int(n[i]) + 1 {
		at[c] = uint8(i)
		c++
	}
	return c
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// lowerString lowers ASCII letters. It may be used on a whole wire name: a
// length octet is at most 63, below 'A'.
func lowerString(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				b[i] = lower(b[i])
			}
			return string(b)
		}
	}
	return s
}

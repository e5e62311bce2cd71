package hooks

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	outputHead = 4 << 10  // kept from the beginning: what the command says first is why it fails
	outputTail = 60 << 10 // kept from the end
)

// An output keeps the beginning and the end of what a command writes, and counts
// the rest, so that a command can write for ever without using memory.
type output struct {
	head []byte
	tail []byte // a ring once it is full
	next int    // where the ring continues
	size int64  // everything written
}

// Write never fails and never keeps p.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	o.size += int64(n)
	if room := outputHead - len(o.head); room > 0 {
		k := min(room, len(p))
		o.head = append(o.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > outputTail {
		p = p[len(p)-outputTail:]
	}
	if room := outputTail - len(o.tail); room > 0 {
		k := min(room, len(p))
		o.tail = append(o.tail, p[:k]...)
		p = p[k:]
	}
	for len(p) > 0 {
		k := copy(o.tail[o.next:], p)
		o.next = (o.next + k) % outputTail
		p = p[k:]
	}
	return n, nil
}

// missing returns how many octets String leaves out.
func (o *output) missing() int64 {
	return o.size - int64(len(o.head)) - int64(len(o.tail))
}

// String returns what was kept as UTF-8: a string field of a message may hold
// nothing else, and a command writes what it likes.
func (o *output) String() string {
	var b strings.Builder
	b.Grow(len(o.head) + len(o.tail) + 64)
	b.Write(o.head)
	if m := o.missing(); m > 0 {
		fmt.Fprintf(&b, "\n[... %d octets left out ...]\n", m)
	}
	b.Write(o.tail[o.next:])
	b.Write(o.tail[:o.next])
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

// lastLine returns the end of s on one line, for a sentence: control characters
// become spaces, so that output cannot forge lines of a log.
func lastLine(s string, limit int) string {
	s = strings.TrimSpace(s)
	if len(s) > limit {
		s = s[len(s)-limit:]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

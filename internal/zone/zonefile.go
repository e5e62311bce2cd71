package zone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// maxTTL is the largest TTL. RFC 2181, section 8.
const maxTTL = 1<<31 - 1

// FileError says where a zone file is wrong.
type FileError struct {
	File string
	Line int // from 1
	Text string

	err error // what Text says
}

func (e *FileError) Error() string { return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text) }

// Unwrap returns the error that Text is of.
func (e *FileError) Unwrap() error { return e.err }

// ReadFile reads a zone file (RFC 1035, section 5) for origin. file is the name
// used in errors, which are a *FileError unless reading failed. $INCLUDE is
// refused: the file is the whole truth. So is $GENERATE, which is not of the
// RFC: package dns gives what it makes a TTL of its own in place of $TTL's.
// Records outside origin, a missing or second SOA, a missing apex NS, CNAME
// beside other data, classes other than IN, TTLs over 2^31-1 and the records of
// a signed zone, which the first update would make untrue, are errors. Records
// of one RRset with different TTLs get the lowest (RFC 2181, section 5.2). RRsets
// come in the order of their first records.
func ReadFile(r io.Reader, file string, origin Name) ([]RRset, error) {
	f := fileReader{
		file: file, origin: origin,
		in:   lineReader{r: bufio.NewReaderSize(r, 64<<10), directive: true},
		sets: fileSets{first: make(map[Name]int)},
	}
	p := dns.NewZoneParser(&f.in, origin.String(), "")
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		if err := f.add(rr); err != nil {
			return nil, err
		}
	}
	switch {
	case f.in.err == errGenerate:
		return nil, f.errorf(f.in.at(), "%w", errGenerate)
	case f.in.err != nil:
		return nil, fmt.Errorf("reading %s: %w", file, f.in.err)
	case p.Err() != nil:
		return nil, f.syntax(p.Err())
	}
	return f.finish()
}

// lineReader counts the lines that the parser took, because its records do not
// say where they stood.
type lineReader struct {
	r         *bufio.Reader
	lines     int
	octet     int  // how many of the next line were taken
	directive bool // so far they are those of $GENERATE
	err       error
}

const generate = "$GENERATE"

var errGenerate = errors.New(generate + " directive not allowed")

func (l *lineReader) ReadByte() (byte, error) {
	b, err := l.r.ReadByte()
	switch {
	case err != nil:
		if err != io.EOF {
			l.err = err
		}
		return 0, err
	case b == '\n':
		l.lines++
		l.octet, l.directive = 0, true
		return b, nil
	}
	if l.directive && l.octet < len(generate) && lower(b) == lower(generate[l.octet]) {
		if l.octet == len(generate)-1 {
			l.err = errGenerate
			return 0, l.err
		}
	} else {
		l.directive = false
	}
	l.octet++
	return b, nil
}

func (l *lineReader) Read([]byte) (int, error) {
	panic("zone: the parser reads octet by octet") // it prefers io.ByteReader
}

// at is the line of what was taken last.
func (l *lineReader) at() int {
	if l.octet > 0 {
		return l.lines + 1
	}
	return max(l.lines, 1)
}

type fileReader struct {
	file   string
	origin Name
	in     lineReader
	sets   fileSets
	text   string // the owner parsed last, and its name
	owner  Name
}

func (f *fileReader) errorf(line int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &FileError{File: f.file, Line: line, Text: shortened(err.Error()), err: err}
}

// shortened bounds what an error quotes of a file: a line may be as long as the file.
func shortened(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d octets)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// syntaxText is how the parser writes an error and its place.
var syntaxText = regexp.MustCompile(`(?s)^dns: (.*) at line: (\d+):\d+$`)

func (f *fileReader) syntax(err error) error {
	m := syntaxText.FindStringSubmatch(err.Error())
	if m == nil {
		return f.errorf(f.in.at(), "%w", err)
	}
	line, _ := strconv.Atoi(m[2])
	return f.errorf(max(line, 1), "%s", m[1])
}

// add takes one record.
func (f *fileReader) add(rr dns.RR) error {
	h, line := rr.Header(), f.in.at()
	if h.Name != f.text || f.owner == "" {
		owner, err := ParseName(h.Name)
		if err != nil {
			return f.errorf(line, "owner %q: %w", h.Name, err)
		}
		f.text, f.owner = h.Name, owner
	}
	switch {
	case !f.owner.Within(f.origin):
		return f.errorf(line, "%s is not in zone %s", h.Name, f.origin)
	case h.Class != dns.ClassINET:
		return f.errorf(line, "%s %s: class %s, only IN is served", h.Name, TypeString(h.Rrtype), dns.Class(h.Class))
	case !IsData(h.Rrtype):
		return f.errorf(line, "%s %s: not a type of records in a zone", h.Name, TypeString(h.Rrtype))
	case madeBySigner(h.Rrtype):
		return f.errorf(line, "%s %s: the file of a signed zone; use the one from before signing", h.Name, TypeString(h.Rrtype))
	case h.Ttl > maxTTL:
		return f.errorf(line, "%s %s: TTL %d, at most %d", h.Name, TypeString(h.Rrtype), h.Ttl, maxTTL)
	case h.Rrtype == dns.TypeSOA && f.owner != f.origin:
		return f.errorf(line, "%s SOA: only the apex %s has one", h.Name, f.origin)
	}
	rdata, err := Rdata(rr)
	if err != nil {
		return f.errorf(line, "%s: %w", h.Name, err)
	}
	set := f.sets.at(f.owner, h.Rrtype)
	switch {
	case set == nil:
		f.sets.add(f.owner, h.Rrtype, h.Ttl, rdata, line)
	case soleType(h.Rrtype) && set.data != rdata: // a transfer, as dig prints it, ends with the SOA again
		return f.errorf(line, "%s: a second %s", h.Name, TypeString(h.Rrtype))
	default:
		set.ttl = min(set.ttl, h.Ttl)
		set.more = append(set.more, rdata)
	}
	return nil
}

// soleType tells the types of which an owner has one record at most: RFC 1035,
// section 5.2; RFC 2181, section 10.1; RFC 6672, section 2.4.
func soleType(typ uint16) bool {
	return typ == dns.TypeSOA || typ == dns.TypeCNAME || typ == dns.TypeDNAME
}

// madeBySigner tells the types that are only true of the zone they were made for.
func madeBySigner(typ uint16) bool {
	switch typ {
	case dns.TypeRRSIG, dns.TypeNSEC, dns.TypeNSEC3, dns.TypeNSEC3PARAM, dns.TypeZONEMD:
		return true
	}
	return false
}

// finish checks what one record alone cannot show.
func (f *fileReader) finish() ([]RRset, error) {
	for _, typ := range [...]uint16{dns.TypeSOA, dns.TypeNS} {
		if f.sets.at(f.origin, typ) == nil {
			return nil, f.errorf(f.in.at(), "no %s at %s", TypeString(typ), f.origin)
		}
	}
	sets := make([]RRset, len(f.sets.all))
	var room [8]string
	for i := range f.sets.all {
		s := &f.sets.all[i]
		if s.typ == dns.TypeCNAME || s.typ == dns.TypeDNAME {
			if err := f.alone(s); err != nil {
				return nil, err
			}
		}
		var err error
		sets[i] = RRset{Owner: s.owner, Type: s.typ, TTL: s.ttl}
		if sets[i], err = sets[i].WithData(append(append(room[:0], s.data), s.more...)); err != nil {
			return nil, f.errorf(s.line, "%w", err)
		}
	}
	return sets, nil
}

// alone checks what may be beside a CNAME: nothing (RFC 1034, section 3.6.2); and
// beside a DNAME: no NS, but at the apex (RFC 6672, section 2.3).
func (f *fileReader) alone(s *fileSet) error {
	for o := range f.sets.of(s.owner) {
		switch {
		case s.typ == dns.TypeCNAME && o != s:
			return f.errorf(max(s.line, o.line), "%s: CNAME beside %s", s.owner, TypeString(o.typ))
		case s.typ == dns.TypeDNAME && o.typ == dns.TypeNS && s.owner != f.origin:
			return f.errorf(max(s.line, o.line), "%s: DNAME beside NS below the apex", s.owner)
		}
	}
	return nil
}

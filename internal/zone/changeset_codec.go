package zone

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/miekg/dns"
)

// changesetFormat is the first octet of an encoded changeset. Format 1, where
// numbers are varints of package binary and texts are preceded by their length:
//
//	cause    source, actor, request (texts), time (signed number)
//	SOAs     flags: 1 From is there, 2 To is there, 4 To is From with another serial,
//	         8 From is static, 16 To is static
//	         From: TTL, data (text); To: its serial (4 octets) or TTL, data (text)
//	deleted  count, then per RRset:
//	         flags: 1 static, 2 the owner is that of the RRset before
//	         owner without the origin at its end (text), unless flag 2
//	         type, TTL, data (text)
//	added    as deleted
const changesetFormat = 1

const (
	soaFrom = 1 << iota
	soaTo
	soaSerialOnly
	soaFromStatic
	soaToStatic
)

const (
	setStatic = 1 << iota
	setSameOwner
)

// Encode returns the changeset as the journal keeps it. The first octet is the
// version of the format. The same changeset is always encoded to the same octets.
func (c *Changeset) Encode() []byte {
	b := make([]byte, 0, c.sizeHint())
	b = append(b, changesetFormat)
	b = appendText(b, c.Cause.Source)
	b = appendText(b, c.Cause.Actor)
	b = appendText(b, c.Cause.Request)
	b = binary.AppendVarint(b, c.Cause.Unix)

	flags := byte(0)
	if !c.From.Empty() {
		flags |= soaFrom
	}
	if !c.To.Empty() {
		flags |= soaTo
	}
	if c.From.Static {
		flags |= soaFromStatic
	}
	if c.To.Static {
		flags |= soaToStatic
	}
	if isSOA(c.From) && isSOA(c.To) && withSerial(c.From, soaSerial(c.To)) == c.To {
		flags |= soaSerialOnly
	}
	b = append(b, flags)
	if flags&soaFrom != 0 {
		b = binary.AppendUvarint(b, uint64(c.From.TTL))
		b = appendText(b, c.From.data)
	}
	switch {
	case flags&soaSerialOnly != 0:
		b = binary.BigEndian.AppendUint32(b, uint32(soaSerial(c.To)))
	case flags&soaTo != 0:
		b = binary.AppendUvarint(b, uint64(c.To.TTL))
		b = appendText(b, c.To.data)
	}

	origin := c.origin()
	last := Name("")
	b, last = appendSets(b, c.Deleted, origin, last)
	b, _ = appendSets(b, c.Added, origin, last)
	return b
}

// origin is the owner of the SOAs.
func (c *Changeset) origin() Name {
	if c.To.Empty() {
		return c.From.Owner
	}
	return c.To.Owner
}

func (c *Changeset) sizeHint() int {
	n := 64 + len(c.Cause.Source) + len(c.Cause.Actor) + len(c.Cause.Request) + len(c.From.data) + len(c.To.data)
	for _, sets := range [...][]RRset{c.Deleted, c.Added} {
		for i := range sets {
			n += 16 + len(sets[i].Owner) + len(sets[i].data)
		}
	}
	return n
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendSets(b []byte, sets []RRset, origin, last Name) ([]byte, Name) {
	b = binary.AppendUvarint(b, uint64(len(sets)))
	for i := range sets {
		s := &sets[i]
		flags := byte(0)
		if s.Static {
			flags |= setStatic
		}
		if s.Owner == last {
			flags |= setSameOwner
		}
		b = append(b, flags)
		if s.Owner != last {
			b = appendText(b, string(s.Owner[:len(s.Owner)-len(origin)]))
			last = s.Owner
		}
		b = binary.AppendUvarint(b, uint64(s.Type))
		b = binary.AppendUvarint(b, uint64(s.TTL))
		b = appendText(b, s.data)
	}
	return b, last
}

var (
	errTruncated = errors.New("truncated")
	errNumber    = errors.New("number out of range or not in its shortest form")
)

// DecodeChangeset reads what Encode wrote. It never panics, whatever the input,
// and accepts nothing that Encode would not write.
func DecodeChangeset(origin Name, b []byte) (*Changeset, error) {
	if len(b) == 0 || b[0] != changesetFormat {
		return nil, fmt.Errorf("changeset of %s: unknown format", origin)
	}
	d := decoder{rest: string(b[1:]), origin: origin}
	c := d.changeset()
	if d.err == nil && d.rest != "" {
		d.err = fmt.Errorf("%d octets too many", len(d.rest))
	}
	if d.err != nil {
		return nil, fmt.Errorf("changeset of %s: %w", origin, d.err)
	}
	return c, nil
}

// decoder reads off rest until something is wrong; afterwards its methods return
// zero values. Strings are parts of one string made of the whole input.
type decoder struct {
	rest   string
	origin Name
	last   Name
	err    error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = ""
}

func (d *decoder) octet() byte {
	if d.rest == "" {
		d.fail(errTruncated)
		return 0
	}
	o := d.rest[0]
	d.rest = d.rest[1:]
	return o
}

// number reads a uvarint of at most limit, in its shortest form.
func (d *decoder) number(limit uint64) uint64 {
	var x uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		o := d.rest[i]
		if i == binary.MaxVarintLen64-1 && o > 1 {
			break // more than 64 bits
		}
		x |= uint64(o&0x7f) << (7 * i)
		if o < 0x80 {
			if i > 0 && o == 0 || x > limit {
				break
			}
			d.rest = d.rest[i+1:]
			return x
		}
	}
	d.fail(errNumber)
	return 0
}

func (d *decoder) text() string {
	n := d.number(uint64(len(d.rest)))
	if n > uint64(len(d.rest)) {
		d.fail(errTruncated)
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) changeset() *Changeset {
	c := new(Changeset)
	c.Cause.Source, c.Cause.Actor, c.Cause.Request = d.text(), d.text(), d.text()
	zigzag := d.number(1<<64 - 1)
	c.Cause.Unix = int64(zigzag>>1) ^ -int64(zigzag&1)

	flags := d.octet()
	if flags&^(soaFrom|soaTo|soaSerialOnly|soaFromStatic|soaToStatic) != 0 || flags&(soaFrom|soaTo) == 0 ||
		flags&soaFromStatic != 0 && flags&soaFrom == 0 || flags&soaToStatic != 0 && flags&soaTo == 0 {
		d.fail(fmt.Errorf("SOA flags %#x", flags))
	}
	if flags&soaFrom != 0 {
		c.From = d.soa(flags&soaFromStatic != 0)
	}
	switch {
	case d.err != nil:
	case flags&soaSerialOnly != 0:
		s := Serial(0)
		for range 4 {
			s = s<<8 | Serial(d.octet())
		}
		if flags&soaFrom == 0 || flags&soaTo == 0 || (flags&soaFromStatic == 0) != (flags&soaToStatic == 0) {
			d.fail(fmt.Errorf("SOA flags %#x", flags))
			break
		}
		c.To = withSerial(c.From, s)
	case flags&soaTo != 0:
		c.To = d.soa(flags&soaToStatic != 0)
		if flags&soaFrom != 0 && d.err == nil && withSerial(c.From, soaSerial(c.To)) == c.To {
			d.fail(errors.New("SOA not in its shortest form"))
		}
	}
	c.Deleted = d.sets()
	c.Added = d.sets()
	return c
}

func (d *decoder) soa(static bool) RRset {
	set := RRset{Owner: d.origin, Type: dns.TypeSOA, Static: static}
	set.TTL = uint32(d.number(1<<32 - 1))
	set.data = d.text()
	if d.err != nil {
		return RRset{}
	}
	if err := checkData(set); err != nil {
		d.fail(err)
	} else if !isSOA(set) {
		d.fail(errors.New("SOA: not one whole record"))
	}
	return set
}

func (d *decoder) sets() []RRset {
	var sets []RRset
	// Not allocated ahead: the count is only a claim.
	for n := d.number(uint64(len(d.rest))); n > 0 && d.err == nil; n-- {
		set := d.set()
		if d.err != nil {
			break
		}
		if len(sets) > 0 {
			prev := &sets[len(sets)-1]
			if c := prev.Owner.Compare(set.Owner); c > 0 || c == 0 && prev.Type >= set.Type {
				d.fail(fmt.Errorf("%s %s out of order", set.Owner, TypeString(set.Type)))
			}
		}
		sets = append(sets, set)
	}
	return sets
}

func (d *decoder) set() RRset {
	flags := d.octet()
	if flags&^(setStatic|setSameOwner) != 0 {
		d.fail(fmt.Errorf("RRset flags %#x", flags))
	}
	set := RRset{Static: flags&setStatic != 0}
	if flags&setSameOwner != 0 {
		set.Owner = d.last
		if set.Owner == "" {
			d.fail(errors.New("RRset without owner"))
		}
	} else {
		set.Owner = d.owner()
	}
	set.Type = uint16(d.number(1<<16 - 1))
	set.TTL = uint32(d.number(1<<32 - 1))
	set.data = d.text()
	if d.err != nil {
		return RRset{}
	}
	switch {
	case set.Empty() || !IsData(set.Type) || set.Type == dns.TypeSOA || len(set.data) > MaxRRsetData:
		d.fail(fmt.Errorf("%s %s is empty, too large or not of records", set.Owner, TypeString(set.Type)))
	default:
		if err := checkData(set); err != nil {
			d.fail(fmt.Errorf("%s: %w", set.Owner, err))
		}
	}
	return set
}

// owner reads a name that is stored without the origin at its end.
func (d *decoder) owner() Name {
	text := d.text()
	if d.err != nil {
		return ""
	}
	// A zero octet in text would end the name before the origin does.
	whole := text + string(d.origin)
	name, ok := nameFromWire(whole)
	if !ok || string(name) != whole || !name.Within(d.origin) || name == d.last {
		d.fail(errors.New("bad owner"))
		return ""
	}
	d.last = name
	return name
}

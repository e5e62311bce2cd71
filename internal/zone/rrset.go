package zone

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// MaxRRsetData is the most rdata one RRset may hold, in octets, counted as it
// is stored. A larger one could not be sent in a DNS message.
const MaxRRsetData = 60000

// RRset is the set of records of one owner and type, as a value that shares no
// memory with anything that changes. Records are kept as canonical rdata (RFC
// 4034, section 6.2), sorted and without duplicates, so that two RRsets with
// the same records are equal as Go values and an answer's order is constant.
type RRset struct {
	Owner  Name
	Type   uint16
	TTL    uint32 // seconds
	Static bool   // the operator's record: no update may touch its name

	data string // per record: length (2 octets), rdata
}

// NewRRset makes an RRset of records that share owner and type. The TTL is that
// of the first (RFC 2181, section 5.2 wants them equal).
func NewRRset(rrs ...dns.RR) (RRset, error) {
	if len(rrs) == 0 {
		return RRset{}, fmt.Errorf("RRset without records")
	}
	h := rrs[0].Header()
	owner, err := ParseName(h.Name)
	if err != nil {
		return RRset{}, fmt.Errorf("owner %q: %w", h.Name, err)
	}
	set := RRset{Owner: owner, Type: h.Rrtype, TTL: h.Ttl}
	datas := make([]string, 0, len(rrs))
	for _, rr := range rrs {
		if o := rr.Header(); o.Rrtype != h.Rrtype || !sameOwner(owner, h.Name, o.Name) {
			return RRset{}, fmt.Errorf("RRset of mixed owners or types: %s and %s", rrs[0], rr)
		}
		d, err := Rdata(rr)
		if err != nil {
			return RRset{}, err
		}
		datas = append(datas, d)
	}
	return set.WithData(datas)
}

// sameOwner reports whether text, most likely the very same as that of owner, is
// that name.
func sameOwner(owner Name, same, text string) bool {
	if same == text {
		return true
	}
	n, err := ParseName(text)
	return err == nil && n == owner
}

// WithData returns the RRset holding the given canonical rdata instead. It sorts
// datas.
func (s RRset) WithData(datas []string) (RRset, error) {
	slices.Sort(datas)
	datas = slices.Compact(datas)
	n := 0
	for _, d := range datas {
		n += 2 + len(d)
	}
	if n > MaxRRsetData {
		return RRset{}, refused(CodeLimit, fmt.Sprintf("%s %s: RRset of %d octets, at most %d", s.Owner, TypeString(s.Type), n, MaxRRsetData))
	}
	var b strings.Builder
	b.Grow(n)
	for _, d := range datas {
		b.WriteByte(byte(len(d) >> 8))
		b.WriteByte(byte(len(d)))
		b.WriteString(d)
	}
	s.data = b.String()
	return s, nil
}

// Empty reports whether the RRset has no record.
func (s RRset) Empty() bool { return s.data == "" }

// Len counts the records.
func (s RRset) Len() int {
	n := 0
	for d := s.data; d != ""; n++ {
		d = d[2+be16(d):]
	}
	return n
}

// Data yields the rdata of each record in canonical order.
func (s RRset) Data() iter.Seq[string] {
	return func(yield func(string) bool) {
		for d := s.data; d != ""; {
			l := be16(d)
			if !yield(d[2 : 2+l]) {
				return
			}
			d = d[2+l:]
		}
	}
}

// Has reports whether the RRset holds a record with this canonical rdata.
func (s RRset) Has(rdata string) bool {
	for d := range s.Data() {
		if d == rdata {
			return true
		}
	}
	return false
}

// SameData reports whether s and t hold the same records, whatever their TTL.
func (s RRset) SameData(t RRset) bool { return s.Type == t.Type && s.data == t.data }

// AppendRRs appends the records to dst as newly made RRs that the caller may
// change; the result has no spare capacity to share. owner is what they are
// named: a query's own spelling of the name, or the name a wildcard was asked by.
func (s RRset) AppendRRs(dst []dns.RR, owner string) []dns.RR {
	switch {
	case s.Type == dns.TypeA && s.data != "":
		return appendA(dst, s.header(owner), s.data)
	case s.Type == dns.TypeAAAA && s.data != "":
		return appendAAAA(dst, s.header(owner), s.data)
	}
	dst = grow(dst, s.Len())
	for d := range s.Data() {
		dst = append(dst, makeRR(owner, s.Type, s.TTL, d))
	}
	return dst
}

func (s RRset) header(owner string) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: s.Type, Class: dns.ClassINET, Ttl: s.TTL}
}

// RRs returns the records under their owner's canonical name.
func (s RRset) RRs() []dns.RR { return s.AppendRRs(nil, s.Owner.String()) }

// IsData reports whether records of a type can be in a zone. The types of queries
// and of messages cannot: 0, OPT, and 128 to 255 with TKEY, TSIG, IXFR, AXFR,
// MAILB, MAILA and ANY among them (RFC 6895, section 3.1); 65535 is reserved.
func IsData(typ uint16) bool {
	return typ != dns.TypeNone && typ != dns.TypeOPT && (typ < 128 || typ > 255) && typ != dns.TypeReserved
}

// TypeString returns the mnemonic of a type, or TYPEnnn (RFC 3597, section 5).
func TypeString(t uint16) string {
	if s, ok := dns.TypeToString[t]; ok && t != dns.TypeNone && t != dns.TypeReserved {
		return s
	}
	return "TYPE" + strconv.Itoa(int(t))
}

// ParseType reads a mnemonic or TYPEnnn, in any case.
func ParseType(s string) (uint16, bool) {
	s = strings.ToUpper(s)
	if t, ok := dns.StringToType[s]; ok && t != dns.TypeNone {
		return t, true
	}
	digits, ok := strings.CutPrefix(s, "TYPE")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return 0, false
	}
	return uint16(n), true
}

func be16(s string) int { return int(s[0])<<8 | int(s[1]) }

package zone

import (
	"encoding/hex"
	"fmt"

	"github.com/miekg/dns"
)

// Addresses are nearly every answer, so they skip the general unpacker and come
// in one allocation: the records, their octets and, for a lone record, the slice
// that is the answer.

func appendA(dst []dns.RR, h dns.RR_Header, data string) []dns.RR {
	h.Rdlength = 4
	const each = 2 + 4
	if dst == nil && len(data) == each {
		one := &struct {
			rr  dns.A
			ip  [4]byte
			set [1]dns.RR
		}{rr: dns.A{Hdr: h}}
		copy(one.ip[:], data[2:])
		one.rr.A, one.set[0] = one.ip[:], &one.rr
		return one.set[:]
	}
	recs := make([]struct {
		rr dns.A
		ip [4]byte
	}, len(data)/each)
	dst = grow(dst, len(recs))
	for i := range recs {
		r := &recs[i]
		copy(r.ip[:], data[i*each+2:])
		r.rr = dns.A{Hdr: h, A: r.ip[:]}
		dst = append(dst, &r.rr)
	}
	return dst
}

func appendAAAA(dst []dns.RR, h dns.RR_Header, data string) []dns.RR {
	h.Rdlength = 16
	const each = 2 + 16
	if dst == nil && len(data) == each {
		one := &struct {
			rr  dns.AAAA
			ip  [16]byte
			set [1]dns.RR
		}{rr: dns.AAAA{Hdr: h}}
		copy(one.ip[:], data[2:])
		one.rr.AAAA, one.set[0] = one.ip[:], &one.rr
		return one.set[:]
	}
	recs := make([]struct {
		rr dns.AAAA
		ip [16]byte
	}, len(data)/each)
	dst = grow(dst, len(recs))
	for i := range recs {
		r := &recs[i]
		copy(r.ip[:], data[i*each+2:])
		r.rr = dns.AAAA{Hdr: h, AAAA: r.ip[:]}
		dst = append(dst, &r.rr)
	}
	return dst
}

// grow returns dst in an array with room for exactly n more, so that no append
// of a caller writes into memory someone else reads.
func grow(dst []dns.RR, n int) []dns.RR {
	return append(make([]dns.RR, 0, len(dst)+n), dst...)
}

// makeRR builds one RR from stored rdata.
func makeRR(owner string, typ uint16, ttl uint32, rdata string) dns.RR {
	h := dns.RR_Header{Name: owner, Rrtype: typ, Class: dns.ClassINET, Ttl: ttl, Rdlength: uint16(len(rdata))}
	if hasDiscovery(typ, rdata) && rdata[1] != discovery { // package dns would drop the relay
		return &dns.RFC3597{Hdr: h, Rdata: hex.EncodeToString([]byte(rdata))}
	}
	rr, _, err := dns.UnpackRRWithHeader(h, []byte(rdata), 0)
	if err != nil {
		// Rdata was checked by Rdata or decodeNode before it got here.
		panic(fmt.Sprintf("zone: stored rdata of %s %s: %v", owner, TypeString(typ), err))
	}
	return rr
}

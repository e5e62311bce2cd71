package zone

import (
	"fmt"

	"github.com/miekg/dns"
)

// Rdata returns the canonical wire rdata of a record: names uncompressed and,
// for the types of RFC 4034, section 6.2 (as corrected by RFC 6840, section
// 5.1), in lower case. The record is not changed. Whatever could not be read back
// as a record of its type is an error.
func Rdata(rr dns.RR) (string, error) {
	typ := rr.Header().Rrtype
	switch r := rr.(type) { // nearly all there is
	case *dns.A:
		if ip := r.A.To4(); ip != nil && typ == dns.TypeA {
			return string(ip), nil
		}
		return "", fmt.Errorf("%s without an IPv4 address", TypeString(typ))
	case *dns.AAAA:
		if len(r.AAAA) == 16 && typ == dns.TypeAAAA {
			return string(r.AAAA), nil
		}
		return "", fmt.Errorf("%s without an IPv6 address", TypeString(typ))
	}
	packed, err := pack(dns.Copy(rr))
	if err != nil {
		return "", err
	}
	// Names in it may have been written with escapes, capitals as digits even:
	// only what was unpacked can be lowered.
	rdata, err := canonical(typ, packed)
	if err == nil && rdata != packed {
		err = checkRdata(typ, rdata)
	}
	return rdata, err
}

// pack returns the rdata of rr, which it changes.
func pack(rr dns.RR) (string, error) {
	if r, ok := rr.(*dns.AMTRELAY); ok && r.GatewayType&discovery != 0 {
		r.GatewayType &^= discovery
		rdata, err := pack(r)
		return flipDiscovery(rdata), err
	}
	h := rr.Header()
	h.Name = "."
	buf := make([]byte, dns.Len(rr)+16)
	end, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil {
		return "", fmt.Errorf("packing %s: %w", TypeString(h.Rrtype), err)
	}
	const header = 1 + 10 // root owner; type, class, TTL, length: RFC 1035, section 3.2.1
	return string(buf[header:end]), nil
}

// canonical reads rdata as a record of its type and writes it again.
func canonical(typ uint16, rdata string) (string, error) {
	switch {
	case typ == dns.TypeA && len(rdata) == 4, typ == dns.TypeAAAA && len(rdata) == 16:
		return rdata, nil
	case rdata == "":
		if mayBeEmpty(typ) {
			return "", nil
		}
		return "", fmt.Errorf("%s without rdata", TypeString(typ))
	case len(rdata) > MaxRRsetData:
		return "", refused(CodeLimit, fmt.Sprintf("%s: rdata of %d octets, at most %d", TypeString(typ), len(rdata), MaxRRsetData))
	}
	if hasDiscovery(typ, rdata) {
		again, err := canonical(typ, flipDiscovery(rdata))
		return flipDiscovery(again), err
	}
	h := dns.RR_Header{Name: ".", Rrtype: typ, Class: dns.ClassINET, Rdlength: uint16(len(rdata))}
	rr, _, err := dns.UnpackRRWithHeader(h, []byte(rdata), 0)
	if err != nil {
		return "", fmt.Errorf("%s: bad rdata: %w", TypeString(typ), err)
	}
	if _, missing := domainNames(rr); missing { // the one truncation that packs as it came
		return "", fmt.Errorf("%s: the data is truncated", TypeString(typ))
	}
	lowerRdata(rr)
	return pack(rr)
}

// checkRdata verifies that rdata is as Rdata returns it.
func checkRdata(typ uint16, rdata string) error {
	again, err := canonical(typ, rdata)
	if err == nil && again != rdata {
		err = fmt.Errorf("%s: rdata not in canonical form", TypeString(typ))
	}
	return err
}

// discovery is the D bit of an AMTRELAY (RFC 8777, section 4.2.2). Package dns
// takes it for a part of the relay's type, and finds no relay: it only gets to
// see such records without the bit.
const discovery = 0x80

func hasDiscovery(typ uint16, rdata string) bool {
	return typ == dns.TypeAMTRELAY && len(rdata) > 1 && rdata[1]&discovery != 0
}

func flipDiscovery(rdata string) string {
	if len(rdata) < 2 {
		return rdata
	}
	return rdata[:1] + string([]byte{rdata[1] ^ discovery}) + rdata[2:]
}

// lowerRdata puts the names inside rdata in lower case, for the types whose
// canonical form asks for it.
func lowerRdata(rr dns.RR) {
	low := func(names ...*string) {
		for _, n := range names {
			*n = dns.CanonicalName(*n)
		}
	}
	switch r := rr.(type) {
	case *dns.NS:
		low(&r.Ns)
	case *dns.MD:
		low(&r.Md)
	case *dns.MF:
		low(&r.Mf)
	case *dns.CNAME:
		low(&r.Target)
	case *dns.SOA:
		low(&r.Ns, &r.Mbox)
	case *dns.MB:
		low(&r.Mb)
	case *dns.MG:
		low(&r.Mg)
	case *dns.MR:
		low(&r.Mr)
	case *dns.PTR:
		low(&r.Ptr)
	case *dns.MINFO:
		low(&r.Rmail, &r.Email)
	case *dns.MX:
		low(&r.Mx)
	case *dns.RP:
		low(&r.Mbox, &r.Txt)
	case *dns.AFSDB:
		low(&r.Hostname)
	case *dns.RT:
		low(&r.Host)
	case *dns.PX:
		low(&r.Map822, &r.Mapx400)
	case *dns.NAPTR:
		low(&r.Replacement)
	case *dns.KX:
		low(&r.Exchanger)
	case *dns.SRV:
		low(&r.Target)
	case *dns.DNAME:
		low(&r.Target)
	}
}

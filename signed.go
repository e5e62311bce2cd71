package ddns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// signer is the dnssec plugin. It signs each RRset of a message's answer section
// that is in its zones, and appends the signatures.
type signer interface {
	Sign(state request.Request, now time.Time, server string) *dns.Msg
}

// suitSigner brings an answer into the form that the dnssec plugin in front of us
// signs rightly. It signs a denial only when the answer section is empty, so an
// alias whose target has nothing is answered with the alias alone: the resolver
// asks for the target itself, and that denial can be signed. So is one whose
// target is delegated, because it would sign the NS records and addresses, which
// are not the zone's to sign (RFC 4035, section 2.2).
func suitSigner(a *zone.Answer) {
	if len(a.Answer) > 0 && len(a.Authority) > 0 {
		a.Rcode, a.Authority, a.Additional = dns.RcodeSuccess, nil, nil
	}
}

// checkNested refuses zones of one stanza that lie in one another and are both
// signed: the plugin takes the longest name for the signer, also of the DS record
// at the lower apex, which is the upper zone's, and keeps such signatures.
func (i *instance) checkNested() error {
	if i.signer == nil || i.nesting == nil {
		return nil
	}
	signs := func(z zone.Name) bool {
		probe := &dns.TXT{Hdr: dns.RR_Header{Name: z.String(), Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"probe"}}
		m := i.signer.Sign(request.Request{Req: &dns.Msg{Answer: []dns.RR{probe}}}, time.Now().UTC(), "")
		for _, rr := range m.Answer {
			if sig, ok := rr.(*dns.RRSIG); ok && strings.EqualFold(sig.SignerName, z.String()) {
				return true
			}
		}
		return false
	}
	for lower := range i.nesting.zones {
		if lower == zone.Root {
			continue
		}
		upper := i.nesting.zone(lower.Parent())
		if i.nesting.zones[upper] && signs(lower) && signs(upper) {
			return fmt.Errorf("zone %s is below zone %s, and the dnssec plugin of their server block signs both: it would sign the DS records of %s with the wrong name; give each zone a server block of its own", lower, upper, lower)
		}
	}
	return nil
}

// denialWriter mends the denials of the dnssec plugin, which stands behind it. The
// NSEC record of a denial is for the name asked alone, and its list of types is
// fixed: it would have a resolver that draws conclusions from it (RFC 8198) deny
// the MX, CAA or HTTPS record that is at the same name, and in the answer to a DS
// query it makes every name look like an unsigned delegation.
type denialWriter struct {
	dns.ResponseWriter
	instance *instance
	server   string // label of the signer's metrics
}

// WriteMsg implements dns.ResponseWriter.
func (w *denialWriter) WriteMsg(m *dns.Msg) error {
	if len(m.Question) == 1 && m.Rcode == dns.RcodeSuccess {
		m.Ns = w.mend(m.Question[0], m.Ns)
		if m.Question[0].Qtype == dns.TypeNSEC {
			m.Answer = w.mend(m.Question[0], m.Answer) // the signer moves it there
		}
	}
	return w.ResponseWriter.WriteMsg(m)
}

// mend returns a section whose NSEC record at the name asked lists what is there,
// and is signed. What it returns is the section itself when that is so already.
func (w *denialWriter) mend(q dns.Question, section []dns.RR) []dns.RR {
	denial := -1
	for i, rr := range section {
		switch rr.Header().Rrtype {
		case dns.TypeNSEC:
			denial = i
		case dns.TypeNS:
			return section // a referral
		}
	}
	if denial < 0 {
		return section
	}
	old, ok := section[denial].(*dns.NSEC)
	name, err := zone.ParseName(q.Name)
	if !ok || err != nil || !sameOwner(old, name) {
		return section
	}
	types, ok := w.instance.listed(q.Name, name, old.TypeBitMap)
	if !ok || slices.Equal(types, old.TypeBitMap) {
		return section
	}
	nsec := *old
	nsec.TypeBitMap = types
	sigs := w.instance.signer.Sign(request.Request{W: w.ResponseWriter, Req: &dns.Msg{Answer: []dns.RR{&nsec}}}, time.Now().UTC(), w.server).Answer
	if len(sigs) < 2 {
		return section // it could not sign; the old one is at least signed
	}
	out := make([]dns.RR, 0, len(section))
	for _, rr := range section {
		if sig, ok := rr.(*dns.RRSIG); rr != dns.RR(old) && !(ok && sig.TypeCovered == dns.TypeNSEC) {
			out = append(out, rr)
		}
	}
	return append(out, sigs...)
}

func sameOwner(rr dns.RR, name zone.Name) bool {
	owner, err := zone.ParseName(rr.Header().Name)
	return err == nil && owner == name
}

// listed is a signer's list of types with those added that are at a name, or at
// the wildcard that answers for it. The signer's own are left, but for NS: a type
// that may come in a moment is not denied in advance. It is false for a name that
// is not ours.
func (i *instance) listed(qname string, name zone.Name, signers []uint16) ([]uint16, bool) {
	z := i.zoneOf(name)
	if z == nil {
		return nil, false
	}
	v := z.Version()
	types := slices.DeleteFunc(slices.Clone(signers), func(t uint16) bool { return t == dns.TypeNS })
	if _, cut := v.RRset(name, dns.TypeNS); cut && name != z.Origin() {
		types = append(types, dns.TypeNS) // what else is there is not ours to speak of
	} else {
		for _, rr := range v.Lookup(qname, name, dns.TypeANY, false).Answer {
			types = append(types, rr.Header().Rrtype)
		}
	}
	slices.Sort(types)
	return slices.Compact(types), true
}

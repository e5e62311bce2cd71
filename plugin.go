package ddns

import (
	"context"
	"slices"
	"sort"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/tsig"
	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// pluginName is the directive, and what CoreDNS finds the handler by.
const pluginName = "ddns"

// DDNS is the handler of one stanza in one server's plugin chain. All chains of a
// stanza share its instance.
type DDNS struct {
	Next plugin.Handler
	*instance
}

var _ plugin.Handler = (*DDNS)(nil)

// Name implements plugin.Handler.
func (d *DDNS) Name() string { return pluginName }

// maxAliases bounds how often an alias is followed from one of our zones into
// another.
const maxAliases = 8

// ServeDNS answers queries for our zones from memory and passes everything else
// on. It never waits for a writer or a disk.
func (d *DDNS) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if len(r.Question) != 1 {
		return dns.RcodeFormatError, nil
	}
	q := r.Question[0]
	name, err := zone.ParseName(q.Name)
	if err != nil {
		return plugin.NextOrFailure(d.Name(), d.Next, ctx, w, r)
	}
	if r.Opcode == dns.OpcodeUpdate {
		return d.serveUpdate(ctx, w, r, name)
	}
	z := d.zoneFor(name, q.Qtype)
	if z == nil {
		return plugin.NextOrFailure(d.Name(), d.Next, ctx, w, r)
	}
	if rcode := notAsked(r, name == z.Origin()); rcode != dns.RcodeSuccess {
		countResponse(z.Origin(), r.Opcode, rcode)
		// Written here: the host takes NOTAUTH for a reply that was written.
		if err := w.WriteMsg(new(dns.Msg).SetRcode(r, rcode)); err != nil {
			return dns.RcodeServerFailure, err
		}
		return dns.RcodeSuccess, nil
	}
	state := request.Request{W: w, Req: r}
	a := z.Version().Lookup(q.Name, name, q.Qtype, state.Do())
	d.leaveToChild(&a, z, name, q.Qtype)
	if a.Rcode == dns.RcodeNameError && len(a.Answer) == 0 && d.cfg.fall.Through(q.Name) {
		return plugin.NextOrFailure(d.Name(), d.Next, ctx, w, r)
	}
	d.followAlias(&a, z, q.Qtype, state.Do())
	if d.signer != nil && state.Do() {
		suitSigner(&a)
	}

	m := new(dns.Msg)
	m.SetReply(r)
	m.Rcode = a.Rcode
	m.Authoritative = a.Authoritative
	m.Answer, m.Ns, m.Extra = a.Answer, a.Authority, a.Additional
	key, _ := tsig.ValidatedKeyName(ctx)
	fit(m, &state, key)
	countResponse(z.Origin(), r.Opcode, m.Rcode)
	if err := writeAnswer(w, m); err != nil {
		return dns.RcodeServerFailure, err
	}
	return m.Rcode, nil
}

// Octets of what is added to an answer behind us: an OPT record with an option or
// two, and a TSIG record besides the name of its key (RFC 8945, section 4.2).
const (
	optRoom  = 11 + 32
	tsigRoom = 10 + 26 + 16 + 64
)

// fit brings an answer over UDP to the size that its client takes, as far as the host
// does not: it would say TC for addresses that nobody asked for (RFC 2181, section
// 9), and leaves what the tsig plugin has signed at whatever size it is.
func fit(m *dns.Msg, state *request.Request, key string) {
	if state.Proto() != "udp" || key == "" && (len(m.Extra) == 0 || len(m.Answer) == 0) {
		return
	}
	room := state.Size() - optRoom
	if key != "" {
		room -= len(key) + 1 + tsigRoom
	}
	m.Compress = true // as the host has it
	if m.Len() <= room {
		return
	}
	if len(m.Answer) > 0 {
		m.Extra = fitting(m, &m.Extra, room)
	}
	if key != "" && m.Len() > room {
		// Not Truncate, which knows no size below 512.
		m.Truncated, m.Ns, m.Extra = true, nil, nil
		m.Answer = fitting(m, &m.Answer, room)
	}
}

// fitting is as much of a section of m as there is room for.
func fitting(m *dns.Msg, section *[]dns.RR, room int) []dns.RR {
	all := *section
	n := sort.Search(len(all), func(n int) bool {
		*section = all[:n+1]
		return m.Len() > room
	})
	return all[:n]
}

// notAsked is the RCODE for what is addressed to one of our zones and is no
// question about its data, or NOERROR.
func notAsked(r *dns.Msg, apex bool) int {
	qtype := r.Question[0].Qtype
	switch {
	case r.Opcode != dns.OpcodeQuery:
		// A NOTIFY must not be answered like a query: we are the primary.
		return dns.RcodeNotImplemented
	case r.Question[0].Qclass != dns.ClassINET:
		// The host refuses other classes itself, unless the block has the chaos
		// plugin. Our zones are of class IN.
		return dns.RcodeRefused
	case isTransfer(qtype) && !apex:
		return dns.RcodeNotAuth // RFC 5936, section 2.2.1
	case isTransfer(qtype):
		// Transfers are the transfer plugin's, which stands in front of us; whoever
		// comes past it may not have one.
		return dns.RcodeRefused
	case !zone.IsData(qtype) && qtype != dns.TypeANY:
		// RFC 6895, section 3.1: the other meta types ask for nothing we hold.
		return dns.RcodeNotImplemented
	}
	return dns.RcodeSuccess
}

// followAlias completes an answer whose CNAME chain leads from one of the
// stanza's zones into another, so that the client is spared a question (RFC 1034,
// section 4.3.2, step 3a). A chain that leaves our zones ends where it does: its
// client is a resolver. So does one that was cut at Lookup's limit.
func (d *DDNS) followAlias(a *zone.Answer, from *zonedb.Zone, qtype uint16, dnssec bool) {
	for range maxAliases {
		if a.Alias == "" {
			return
		}
		z := d.zoneOf(a.Alias)
		if z == nil || z == from {
			return
		}
		next := z.Version().Lookup(a.Alias.String(), a.Alias, qtype, dnssec)
		d.leaveToChild(&next, z, a.Alias, qtype)
		if len(next.Answer) == 0 && !next.Authoritative {
			return // delegated: the chain's client goes on from here
		}
		if n := unsaid(a.Answer, next.Answer); n < len(next.Answer) {
			// A loop: the resolver sees it, with each of its records once.
			a.Answer, a.Alias = append(a.Answer, next.Answer[:n]...), ""
			return
		}
		from = z
		a.Rcode, a.Alias = next.Rcode, next.Alias
		a.Answer = append(a.Answer, next.Answer...)
		a.Authority, a.Additional = next.Authority, next.Additional
	}
}

// unsaid counts the records that a chain goes on with before one that it has already.
func unsaid(chain, next []dns.RR) int {
	for i, rr := range next {
		if slices.ContainsFunc(chain, func(o dns.RR) bool { return dns.IsDuplicate(o, rr) }) {
			return i
		}
	}
	return len(next)
}

// zoneOf is the closest of our zones that encloses a name, or nil.
func (i *instance) zoneOf(n zone.Name) *zonedb.Zone {
	for {
		if z := i.zones[n]; z != nil {
			return z
		}
		if n == zone.Root {
			return nil
		}
		n = n.Parent()
	}
}

// Ready implements ready.Readiness. CoreDNS asks only the instance that
// registered last, so it answers for every live one: true once all of them have
// their zones in memory.
func (d *DDNS) Ready() bool { return allStarted() }

// CacheBypassZones keeps the cache plugin from answering for our zones, whose
// records may have changed since it last saw them.
func (d *DDNS) CacheBypassZones() []string {
	zones := make([]string, len(d.cfg.zones))
	for i, z := range d.cfg.zones {
		zones[i] = z.String()
	}
	return zones
}

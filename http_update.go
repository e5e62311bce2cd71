package ddns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// updateWait bounds how long an update waits for the writer. It is well below the
// time a reply may take.
const updateWait = 8 * time.Second

// updateAnswer is what an update that worked is told.
type updateAnswer struct {
	FQDN    string         `json:"fqdn"`
	Changed bool           `json:"changed"`
	Records []recordAnswer `json:"records"` // those that now are as asked for
	Serial  uint32         `json:"serial"`
}

type recordAnswer struct {
	Type string `json:"type"`
	TTL  uint32 `json:"ttl"`
	Data string `json:"data"`
}

// update serves /update: GET and POST publish addresses, DELETE withdraws.
func (f *httpFront) update(r *httpRequest) *problem {
	if len(r.view.sites) == 0 {
		return stopping()
	}
	// Whatever is wrong with the question is told only to who may ask.
	query, queryErr := url.ParseQuery(r.URL.RawQuery)
	name, namePr := queryName(query)
	var origin zone.Name
	var site *httpMember
	if namePr == nil {
		origin, site = r.view.site(name)
	}
	who, pr := f.authenticate(r, site)
	switch {
	case pr != nil:
		return pr
	case queryErr != nil:
		return newProblem(codeBadRequest, "the query is not properly encoded")
	case namePr != nil:
		return namePr
	case site == nil:
		return newProblem(codeZoneNotServed, "%s is in no zone that is served here", name)
	}
	id, peer, pr := f.admit(r, who, site)
	if pr != nil {
		site.observeUpdate(origin, pr.code)
		return pr
	}
	answer, pr := f.change(r, change{site: site, origin: origin, name: name, id: id, peer: peer, query: query})
	if pr != nil {
		site.observeUpdate(origin, pr.code)
		return pr
	}
	result := "unchanged"
	if answer.Changed {
		result = "changed"
	}
	site.observeUpdate(origin, result)
	r.reply.json(answer)
	return nil
}

func (s *httpMember) observeUpdate(origin zone.Name, result string) {
	if s.Observe != nil {
		s.Observe.Update(origin.String(), result)
	}
}

// queryName reads the parameter fqdn, of which there is exactly one.
func queryName(query url.Values) (zone.Name, *problem) {
	switch names := query["fqdn"]; len(names) {
	case 1:
		n, err := policy.ParseOwner(names[0])
		if err != nil {
			return "", newProblem(codeBadName, "fqdn: %v", err)
		}
		return n, nil
	case 0:
		return "", newProblem(codeBadName, "the parameter fqdn is missing")
	default:
		return "", newProblem(codeBadName, "the parameter fqdn is there more than once")
	}
}

// change is an update whose sender is known.
type change struct {
	site   *httpMember
	origin zone.Name
	name   zone.Name
	id     *policy.Identity
	peer   netip.Addr
	query  url.Values
}

func (f *httpFront) change(r *httpRequest, c change) (*updateAnswer, *problem) {
	if !c.id.Knows(c.name) {
		return nil, notPermitted()
	}
	if c.site.stopping {
		return nil, stopping()
	}
	key := identityKey{zone: c.site.Zones[0], id: c.id.ID}
	if wait := f.updates.take(key, c.site.UpdateRate, r.now); wait > 0 {
		return nil, newProblem(codeTooManyRequests, "this token has reached its rate of updates").after(retryAfter(wait))
	}
	var sets []zone.RRset
	var operations []zone.Operation
	var pr *problem
	if r.Method == "DELETE" {
		operations, pr = c.withdrawal()
	} else {
		sets, pr = c.publication(r)
		for _, s := range sets {
			operations = append(operations, zone.ReplaceRRset(s)...)
		}
	}
	if pr != nil {
		return nil, pr
	}
	ctx, cancel := context.WithTimeout(r.Context(), updateWait)
	defer cancel()
	res, err := c.site.Update(ctx, c.origin, zone.Update{
		Operations: operations,
		Permission: c.id,
		Limits:     c.site.Limits,
		Cause:      zone.Cause{Source: "http", Actor: c.id.ID, Request: r.reply.id, Unix: r.now.Unix()},
	})
	if err != nil {
		pr, unknown := updateProblem(err)
		if unknown {
			r.view.log("error", "Updating zone=%s name=%s by=%s request=%s: %v", c.origin, c.name, c.id.ID, r.reply.id, err)
		}
		return nil, pr
	}
	if !res.Changed && len(sets) > 0 && res.Version != nil {
		// RFC 2136, section 3.4.2.2: what is added beside a CNAME is silently
		// ignored. Here it must not look like a success.
		if _, alias := res.Version.RRset(c.name, dns.TypeCNAME); alias {
			return nil, newProblem(codeConflict, "%s has a CNAME, and no other record can be beside it", c.name)
		}
	}
	a := &updateAnswer{FQDN: c.name.String(), Changed: res.Changed, Records: []recordAnswer{}, Serial: uint32(res.Serial)}
	for _, s := range sets {
		for data := range s.Data() {
			addr, _ := netip.AddrFromSlice([]byte(data))
			a.Records = append(a.Records, recordAnswer{Type: zone.TypeString(s.Type), TTL: s.TTL, Data: addr.String()})
		}
	}
	return a, nil
}

// publication is the RRsets that GET and POST ask for, A first. A family that is
// not mentioned is not touched.
func (c *change) publication(r *httpRequest) ([]zone.RRset, *problem) {
	if !c.id.Permits(c.name, dns.TypeA) && !c.id.Permits(c.name, dns.TypeAAAA) {
		return nil, notPermitted()
	}
	ttl, pr := c.ttl()
	if pr != nil {
		return nil, pr
	}
	addresses, pr := publishedAddresses(r.Request, c.query, c.site.httpSite, c.peer)
	if pr != nil {
		return nil, pr
	}
	var v4, v6 []string
	for _, a := range addresses {
		if a.Is4() {
			v4 = append(v4, string(a.AsSlice()))
		} else {
			v6 = append(v6, string(a.AsSlice()))
		}
	}
	var sets []zone.RRset
	for _, family := range []struct {
		typ  uint16
		data []string
	}{{dns.TypeA, v4}, {dns.TypeAAAA, v6}} {
		if len(family.data) == 0 {
			continue
		}
		if !c.id.Permits(c.name, family.typ) {
			return nil, notPermitted()
		}
		set, err := zone.RRset{Owner: c.name, Type: family.typ, TTL: ttl}.WithData(family.data)
		if err != nil {
			pr, _ := updateProblem(err)
			return nil, pr
		}
		sets = append(sets, set)
	}
	return sets, nil
}

// ttl is the stanza's default, or the parameter ttl brought within its limits.
func (c *change) ttl() (uint32, *problem) {
	switch values := c.query["ttl"]; len(values) {
	case 0:
		return c.site.DefaultTTL, nil
	case 1:
		n, err := strconv.ParseUint(values[0], 10, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, newProblem(codeBadTTL, "ttl is not a number of seconds")
		}
		return uint32(min(max(n, uint64(c.site.MinTTL)), uint64(c.site.MaxTTL))), nil
	default:
		return 0, newProblem(codeBadTTL, "the parameter ttl is there more than once")
	}
}

// withdrawal is what DELETE asks for: the types named, or those of A and AAAA
// that the identity may withdraw.
func (c *change) withdrawal() ([]zone.Operation, *problem) {
	if c.query.Has("ip") || c.query.Has("ttl") {
		// Not ignored: who sends an address means that one, and would lose all.
		return nil, newProblem(codeBadRequest, "DELETE withdraws whole types and takes neither ip nor ttl")
	}
	types, pr := c.types()
	if pr != nil {
		return nil, pr
	}
	var operations []zone.Operation
	for _, t := range types {
		op := zone.Operation{Kind: zone.DeleteRRset, Owner: c.name, Type: t}
		if t == dns.TypeANY {
			op = zone.Operation{Kind: zone.DeleteName, Owner: c.name}
		}
		operations = append(operations, op)
	}
	return operations, nil
}

// types reads the parameter type: mnemonics, repeated or separated by commas; ANY
// is every RRset of the name.
func (c *change) types() ([]uint16, *problem) {
	var types []uint16
	if !c.query.Has("type") {
		for _, t := range []uint16{dns.TypeA, dns.TypeAAAA} {
			if c.id.Permits(c.name, t) {
				types = append(types, t)
			}
		}
		if len(types) == 0 {
			return nil, notPermitted()
		}
		return types, nil
	}
	for _, v := range c.query["type"] {
		for word := range strings.SplitSeq(v, ",") {
			t, ok := zone.ParseType(strings.TrimSpace(word))
			if !ok || t != dns.TypeANY && !zone.IsData(t) {
				return nil, newProblem(codeBadType, "type: %s is no type of record that a zone holds", printable(word))
			}
			if !c.id.Permits(c.name, t) {
				return nil, notPermitted()
			}
			if !slices.Contains(types, t) {
				types = append(types, t)
			}
		}
	}
	return types, nil
}

// printable is a word of the client's as it may be repeated.
func printable(s string) string {
	const most = 20
	if len(s) > most {
		return "a word of " + strconv.Itoa(len(s)) + " octets"
	}
	return fmt.Sprintf("%q", s)
}

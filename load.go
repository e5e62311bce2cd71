package ddns

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/plain"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// loaded is what a stanza's files hold, read and checked whole.
type loaded struct {
	policy *policy.Policy
	specs  []zonedb.Spec
	tls    *tls.Config // of the HTTP listener; nil for plain HTTP

	grpcTLS *tls.Config // of the hook server; nil on a unix socket
}

// read reads every file of the stanza: at the start and at each /reload. Nothing is
// changed by it, so that all of it counts or none. Zone files are not parsed yet: see
// zonedb.Spec.
func (i *instance) read() (*loaded, error) {
	l := &loaded{policy: new(policy.Policy)}
	if i.cfg.policy != "" {
		p, err := policy.ParseFile(i.cfg.policy)
		if err != nil {
			return nil, err
		}
		if err := i.cfg.checkOwner(p); err != nil {
			return nil, err
		}
		l.policy = p
	}
	for _, origin := range i.cfg.zones {
		spec := zonedb.Spec{Origin: origin, Limits: i.cfg.zoneLimits(), Journal: i.cfg.limits.journal}
		var err error
		switch {
		case i.cfg.files[origin] != "":
			spec.Source = "file"
			spec.Digest, spec.Read, err = i.cfg.zoneFile(i.cfg.files[origin], origin)
		case i.cfg.seeds[origin] != "":
			spec.Source = "seed"
			// Read only when the store turns out not to have the zone.
			spec.Seed = func() ([]zone.RRset, error) { return i.cfg.seed(i.cfg.seeds[origin], origin) }
		default:
			spec.Source = "ns"
			spec.Static, err = i.cfg.apex(origin)
		}
		if err != nil {
			return nil, err
		}
		l.specs = append(l.specs, spec)
	}
	if err := l.readTLS(i.cfg); err != nil {
		return nil, err
	}
	return l, nil
}

// parse parses the zone files before there is a database: none is made for one that
// cannot be read.
func (l *loaded) parse() error {
	for _, spec := range l.specs {
		if spec.Read == nil {
			continue
		}
		if _, err := spec.Read(); err != nil {
			return err
		}
	}
	return nil
}

// zoneFormat is part of a zone file's digest. It changes when zone.ReadFile makes other
// records of the same text, so that they are merged once more.
const zoneFormat = "1"

// zoneFileOctets bounds a zone file: twenty million names are more than memory is for.
const zoneFileOctets = 1 << 30

// readZoneFile is replaced by tests that need a file to be slow.
var readZoneFile = plain.Read

// zoneFile takes a zone's file in as it is now. It is parsed when read is called the
// first time: to parse a large one takes longer than all else of a start.
func (c *config) zoneFile(path string, origin zone.Name) (digest string, read func() ([]zone.RRset, error), err error) {
	text, err := readZoneFile(path, zoneFileOctets)
	if err != nil {
		return "", nil, err
	}
	h := sha256.New()
	// What checkForChild goes by is part of what makes the text acceptable.
	fmt.Fprintln(h, zoneFormat, origin)
	for _, z := range slices.Sorted(slices.Values(c.zones)) {
		if z.Below(origin) {
			fmt.Fprintln(h, z)
		}
	}
	fmt.Fprintln(h)
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil)[:16]), sync.OnceValues(func() ([]zone.RRset, error) {
		return c.parseZone(bytes.NewReader(text), path, origin)
	}), nil
}

// seed reads the file that a zone begins with.
func (c *config) seed(path string, origin zone.Name) ([]zone.RRset, error) {
	text, err := readZoneFile(path, zoneFileOctets)
	if err != nil {
		return nil, err
	}
	return c.parseZone(bytes.NewReader(text), path, origin)
}

func (c *config) parseZone(r io.Reader, path string, origin zone.Name) ([]zone.RRset, error) {
	sets, err := zone.ReadFile(r, path, origin)
	if err != nil {
		return nil, err
	}
	return sets, c.checkForChild(path, origin, sets)
}

// checkOwner refuses hooks from a file that somebody else can write when this process
// runs them as root: who writes the file would be root.
func (c *config) checkOwner(p *policy.Policy) error {
	if c.hooks != "local" || os.Geteuid() != 0 || len(p.Hooks()) == 0 {
		return nil
	}
	if err := hooks.CheckFile(c.policy); err != nil {
		return &reloadError{File: c.policy, Text: fmt.Sprintf("it defines hooks, which this process runs as root, but %v: give it to root, or run the hooks by ddns-hookd", err)}
	}
	return nil
}

// Timers of an apex made from `ns`, in seconds. Secondaries are told of changes by
// NOTIFY, so refresh is only the fallback; the negative TTL is short because a
// name that does not exist yet may exist in a moment.
const (
	apexTTL     = 3600
	apexRefresh = 3600
	apexRetry   = 600
	apexExpire  = 1209600
)

// apex makes the SOA, NS and address records of a zone without a file.
func (c *config) apex(origin zone.Name) ([]zone.RRset, error) {
	head := func(owner zone.Name, typ uint16) dns.RR_Header {
		return dns.RR_Header{Name: owner.String(), Rrtype: typ, Class: dns.ClassINET, Ttl: apexTTL}
	}
	mbox := "hostmaster." + origin.String()
	if len(origin)+len("hostmaster.") > zone.MaxNameLength {
		mbox = origin.String()
	}
	rrs := map[zone.Name]map[uint16][]dns.RR{}
	add := func(owner zone.Name, rr dns.RR) {
		if rrs[owner] == nil {
			rrs[owner] = map[uint16][]dns.RR{}
		}
		t := rr.Header().Rrtype
		rrs[owner][t] = append(rrs[owner][t], rr)
	}
	add(origin, &dns.SOA{
		Hdr: head(origin, dns.TypeSOA), Ns: c.servers[0].name.String(), Mbox: mbox, Serial: 1,
		Refresh: apexRefresh, Retry: apexRetry, Expire: apexExpire, Minttl: min(apexTTL, max(c.ttl.standard, 1)),
	})
	for _, s := range c.servers {
		add(origin, &dns.NS{Hdr: head(origin, dns.TypeNS), Ns: s.name.String()})
		if c.holding(s.name) != origin {
			continue
		}
		if len(s.addresses) == 0 {
			log.Warningf("Zone %s has the name server %s in it, and no address for it: nobody can reach it by that name; write 'ns %s ADDRESS'", origin, s.name, s.name)
		}
		for _, a := range s.addresses {
			if a.Is4() {
				add(s.name, &dns.A{Hdr: head(s.name, dns.TypeA), A: a.AsSlice()})
			} else {
				add(s.name, &dns.AAAA{Hdr: head(s.name, dns.TypeAAAA), AAAA: a.AsSlice()})
			}
		}
	}
	var sets []zone.RRset
	for _, byType := range rrs {
		for _, list := range byType {
			set, err := zone.NewRRset(list...)
			if err != nil {
				return nil, fmt.Errorf("making the apex of %s: %w", origin, err)
			}
			sets = append(sets, set)
		}
	}
	return sets, nil
}

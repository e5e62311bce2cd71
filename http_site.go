package ddns

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// httpSite is a stanza as the HTTP side sees it. It is immutable; what changes
// without a reload of the Corefile is behind its functions.
type httpSite struct {
	Zones []zone.Name
	// Policy is the policy now. A request calls it once, so one policy judges it.
	Policy func() *policy.Policy
	// Update is zonedb.Zone.Update of one of Zones.
	Update func(ctx context.Context, origin zone.Name, u zone.Update) (zonedb.Result, error)
	// Reload re-reads the stanza's files, all or nothing, for the identity actor
	// and the request with this id. Its errors are *reloadError for a file that is
	// wrong, errReloadRunning, and those of zonedb.
	Reload func(ctx context.Context, actor, request string) (reloadReport, error)
	// Check is what Reload would refuse, and changes nothing; may be nil.
	Check func() error

	// Backup writes a consistent copy of the stanza's database, and Database names
	// it: stanzas that share one have the same.
	Backup   func(ctx context.Context, w io.Writer) error
	Database string

	DefaultTTL, MinTTL, MaxTTL uint32 // seconds
	Limits                     zone.Limits
	SourceIP                   sourceIPMode
	Addresses                  addressMode
	TrustedProxies             []netip.Prefix
	FailureRate                rate // wrong credentials, per peer
	UpdateRate                 rate // updates, per token

	// Operator serves what is below /hooks for identities with the reload grant;
	// nil is nothing. Answers are buffered.
	Operator http.Handler
	// Hooks is what Operator speaks of, to be told from that of other stanzas; nil when
	// there is nothing. May be nil.
	Hooks func() any

	Observe httpObserver
	// Log writes one line; level is "debug", "info", "warning" or "error".
	Log func(level, format string, args ...any)
}

// httpObserver is told what the HTTP side does; metrics hang on it. All label
// values are from small fixed sets.
type httpObserver interface {
	Request(route string, code int, took time.Duration)
	AuthFailure(reason string)
	Update(zone, result string)
}

type noHTTPObserver struct{}

func (noHTTPObserver) Request(string, int, time.Duration) {}
func (noHTTPObserver) AuthFailure(string)                 {}
func (noHTTPObserver) Update(string, string)              {}

// httpMember is a site with what the listener knows about it.
type httpMember struct {
	*httpSite
	stopping bool
}

// httpView is what one address serves at one moment. It is immutable once it is
// made, which the first request that sees it does: with many stanzas on an
// address a reload makes as many views, and nobody sees most of them.
type httpView struct {
	members []resident.Member[*httpSite]
	once    sync.Once

	sites  []*httpMember // newest generation first
	byZone map[zone.Name]*httpMember
	// trusted is every site's proxies: for requests that are about no site.
	trusted []netip.Prefix
}

func newHTTPView(members []resident.Member[*httpSite]) *httpView {
	return &httpView{members: members}
}

// made lets the newest generation have each zone. Sites of an older one stay for
// zones that the newer has not taken over yet: during a reload its stanzas come up one
// by one.
func (v *httpView) made() *httpView {
	v.once.Do(v.make)
	return v
}

func (v *httpView) make() {
	if len(v.members) == 0 {
		return
	}
	members := v.members
	v.members, v.byZone = nil, make(map[zone.Name]*httpMember)
	for _, m := range members {
		site := &httpMember{httpSite: m.Site, stopping: m.Stopping}
		needed := m.Generation == members[0].Generation
		for _, z := range m.Site.Zones {
			if v.byZone[z] == nil {
				v.byZone[z] = site
				needed = true
			}
		}
		if needed {
			v.sites = append(v.sites, site)
			v.trusted = append(v.trusted, m.Site.TrustedProxies...)
		}
	}
}

// site finds the zone a name belongs to: the longest that contains it.
func (v *httpView) site(name zone.Name) (origin zone.Name, s *httpMember) {
	for n := name; ; n = n.Parent() {
		if s := v.byZone[n]; s != nil {
			return n, s
		}
		if n == zone.Root {
			return "", nil
		}
	}
}

func (v *httpView) observe() httpObserver {
	for _, s := range v.sites {
		if s.Observe != nil {
			return s.Observe
		}
	}
	return noHTTPObserver{}
}

func (v *httpView) log(level, format string, args ...any) {
	for _, s := range v.sites {
		if s.Log != nil {
			s.Log(level, format, args...)
			return
		}
	}
}

package ddns

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range texts {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// fakeUpdate accepts what the grants permit and notes which zone was asked for
// which name.
func fakeUpdate(asked *[]string) func(context.Context, zone.Name, zone.Update) (zonedb.Result, error) {
	return func(_ context.Context, origin zone.Name, u zone.Update) (zonedb.Result, error) {
		for _, op := range u.Operations {
			if !u.Permission.Permits(op.Owner, op.Type) {
				return zonedb.Result{}, &zone.Error{Code: zone.CodeNotPermitted, Text: "no"}
			}
		}
		*asked = append(*asked, fmt.Sprintf("%s %s", origin, u.Operations[0].Owner))
		return zonedb.Result{Changed: true, Serial: 1}, nil
	}
}

func TestPublishedAddress(t *testing.T) {
	const (
		trusted   = "192.0.2.1:4000"
		untrusted = "198.51.100.1:4000"
	)
	tests := []struct {
		name    string
		mode    sourceIPMode
		only    addressMode
		peer    string   // default untrusted
		query   string   // the parameters ip
		headers []string // X-Source-IP
		want    string   // addresses, or the problem's code
	}{
		{name: "the peer", want: "198.51.100.1"},
		{name: "a mapped peer", peer: "[::ffff:198.51.100.1]:9", want: "198.51.100.1"},
		{name: "an IPv6 peer", peer: "[2001:db8::1]:9", want: "2001:db8::1"},
		{name: "a link-local peer", peer: "[fe80::1%eth0]:9", want: codeNotPublishable},
		{name: "a loopback peer", peer: "127.0.0.1:9", want: codeNotPublishable},
		{name: "a unix socket's peer", peer: "@", want: codeNotPublishable},

		{name: "ip", query: "ip=203.0.113.9", want: "203.0.113.9"},
		{name: "ip before the header before the peer", query: "ip=203.0.113.9", headers: []string{"203.0.113.8"}, want: "203.0.113.9"},
		{name: "the header before the peer", headers: []string{"203.0.113.8"}, want: "203.0.113.8"},
		{name: "both families", query: "ip=203.0.113.9&ip=2001:db8::9", want: "203.0.113.9 2001:db8::9"},
		{name: "a list", query: "ip=203.0.113.9,2001:db8::9", want: "203.0.113.9 2001:db8::9"},
		{name: "a list with blanks", query: "ip=203.0.113.9,+2001:db8::9", want: "203.0.113.9 2001:db8::9"},
		{name: "the same twice", query: "ip=203.0.113.9&ip=::ffff:203.0.113.9", want: "203.0.113.9"},
		{name: "mapped", query: "ip=::ffff:203.0.113.9", want: "203.0.113.9"},
		{name: "mapped in hex", query: "ip=::ffff:cb00:7109", want: "203.0.113.9"},
		{name: "mapped loopback", query: "ip=::ffff:127.0.0.1", want: codeNotPublishable},
		{name: "upper case", query: "ip=2001:DB8::A", want: "2001:db8::a"},
		{name: "empty", query: "ip=", want: codeBadAddress},
		{name: "empty in a list", query: "ip=203.0.113.9,", want: codeBadAddress},
		{name: "one good and one bad", query: "ip=203.0.113.9&ip=x", want: codeBadAddress},
		{name: "leading zeros", query: "ip=203.0.113.010", want: codeBadAddress},
		{name: "too few octets", query: "ip=203.0.113", want: codeBadAddress},
		{name: "a number", query: "ip=3405803785", want: codeBadAddress},
		{name: "hex octets", query: "ip=0xcb.0.0x71.9", want: codeBadAddress},
		{name: "a port", query: "ip=203.0.113.9:80", want: codeBadAddress},
		{name: "an IPv6 port", query: "ip=[2001:db8::9]:80", want: codeBadAddress},
		{name: "brackets", query: "ip=[2001:db8::9]", want: codeBadAddress},
		{name: "a prefix length", query: "ip=203.0.113.9/24", want: codeBadAddress},
		{name: "a zone id", query: "ip=fe80::1%25eth0", want: codeBadAddress},
		{name: "a zone id on a global address", query: "ip=2001:db8::1%25eth0", want: codeBadAddress},
		{name: "a name", query: "ip=example.org", want: codeBadAddress},
		{name: "a NUL", query: "ip=203.0.113.9%00", want: codeBadAddress},
		{name: "a line end", query: "ip=203.0.113.9%0d%0a", want: codeBadAddress},
		{name: "endless", query: "ip=" + strings.Repeat("1", 8000), want: codeBadAddress},
		{name: "64 addresses", query: "ip=" + manyAddresses(64), want: strings.ReplaceAll(manyAddresses(64), ",", " ")},
		{name: "65 addresses", query: "ip=" + manyAddresses(65), want: codeBadAddress},

		{name: "header: IPv6", headers: []string{"2001:db8::8"}, want: "2001:db8::8"},
		{name: "header: a list", headers: []string{"203.0.113.8, 2001:db8::8"}, want: "203.0.113.8 2001:db8::8"},
		{name: "header: twice", headers: []string{"203.0.113.8", "203.0.113.8"}, want: codeBadAddress},
		{name: "header: empty", headers: []string{""}, want: codeBadAddress},
		{name: "header: blank", headers: []string{"  "}, want: codeBadAddress},
		{name: "header: a port", headers: []string{"203.0.113.8:80"}, want: codeBadAddress},
		{name: "header: private", headers: []string{"10.0.0.7"}, want: "10.0.0.7"},
		{name: "header: loopback", headers: []string{"127.0.0.1"}, want: codeNotPublishable},
		{name: "header: endless", headers: []string{strings.Repeat("9", 12000)}, want: codeBadAddress},
		{name: "proxy: from a trusted one", mode: sourceIPProxy, peer: trusted, headers: []string{"203.0.113.8"}, want: "203.0.113.8"},
		{name: "proxy: from another", mode: sourceIPProxy, headers: []string{"203.0.113.8"}, want: codeSourceHeader},
		{name: "proxy: from another, with ip", mode: sourceIPProxy, query: "ip=203.0.113.9", headers: []string{"203.0.113.8"}, want: codeSourceHeader},
		{name: "proxy: no header", mode: sourceIPProxy, want: "198.51.100.1"},
		{name: "off: ignored", mode: sourceIPOff, headers: []string{"203.0.113.8"}, want: "198.51.100.1"},
		{name: "off: ignored though wrong", mode: sourceIPOff, headers: []string{"x", "y"}, want: "198.51.100.1"},

		{name: "unspecified", query: "ip=0.0.0.0", want: codeNotPublishable},
		{name: "unspecified IPv6", query: "ip=::", want: codeNotPublishable},
		{name: "this network", query: "ip=0.1.2.3", want: codeNotPublishable},
		{name: "loopback IPv6", query: "ip=::1", want: codeNotPublishable},
		{name: "link-local", query: "ip=169.254.1.1", want: codeNotPublishable},
		{name: "link-local IPv6", query: "ip=fe80::1", want: codeNotPublishable},
		{name: "multicast", query: "ip=224.0.0.1", want: codeNotPublishable},
		{name: "multicast IPv6", query: "ip=ff02::1", want: codeNotPublishable},
		{name: "broadcast", query: "ip=255.255.255.255", want: codeNotPublishable},
		{name: "reserved", query: "ip=240.0.0.1", want: codeNotPublishable},
		{name: "IPv4-compatible", query: "ip=::203.0.113.9", want: codeNotPublishable},
		{name: "one good and one not publishable", query: "ip=203.0.113.9,127.0.0.1", want: codeNotPublishable},

		{name: "any: private", query: "ip=192.168.1.1", want: "192.168.1.1"},
		{name: "any: ULA", query: "ip=fd00::1", want: "fd00::1"},
		{name: "any: carrier's", query: "ip=100.64.0.1", want: "100.64.0.1"},
		{name: "public: a public one", only: addressesPublic, query: "ip=8.8.8.8,2600::1", want: "8.8.8.8 2600::1"},
		{name: "public: private", only: addressesPublic, query: "ip=192.168.1.1", want: codeNotPublishable},
		{name: "public: private, mapped", only: addressesPublic, query: "ip=::ffff:10.0.0.1", want: codeNotPublishable},
		{name: "public: ULA", only: addressesPublic, query: "ip=fd00::1", want: codeNotPublishable},
		{name: "public: carrier's", only: addressesPublic, query: "ip=100.127.255.255", want: codeNotPublishable},
		{name: "public: documentation", only: addressesPublic, query: "ip=2001:db8::1", want: codeNotPublishable},
		{name: "public: site-local", only: addressesPublic, query: "ip=fec0::1", want: codeNotPublishable},
		{name: "public: not assigned", only: addressesPublic, query: "ip=4000::1", want: codeNotPublishable},
		{name: "public: a private peer", only: addressesPublic, peer: "10.0.0.9:1", want: codeNotPublishable},
	}
	for _, tc := range tests {
		r := httptest.NewRequest("GET", "/update", nil)
		r.RemoteAddr = untrusted
		if tc.peer != "" {
			r.RemoteAddr = tc.peer
		}
		for _, h := range tc.headers {
			r.Header.Add("X-Source-IP", h)
		}
		query, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		s := &httpSite{SourceIP: tc.mode, Addresses: tc.only, TrustedProxies: prefixes("192.0.2.0/24")}
		addrs, pr := publishedAddresses(r, query, s, socketPeer(r))
		got := strings.Trim(fmt.Sprint(addrs), "[]")
		if pr != nil {
			got = pr.code
			if len(pr.detail) > 200 {
				t.Errorf("%s: a detail of %d octets", tc.name, len(pr.detail))
			}
		}
		if got != tc.want {
			t.Errorf("%s: got %.100s, want %.100s", tc.name, got, tc.want)
		}
	}
}

func manyAddresses(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("203.0.113.%d", i))
	}
	return strings.Join(out, ",")
}

func TestClientPeer(t *testing.T) {
	trusted := prefixes("192.0.2.0/24", "2001:db8:1::/48")
	tests := []struct {
		name      string
		socket    string
		forwarded []string
		want      string // or the problem's code
	}{
		{"no proxy", "203.0.113.5:1", nil, "203.0.113.5"},
		{"a header from who is not trusted", "203.0.113.5:1", []string{"198.51.100.1"}, "203.0.113.5"},
		{"one proxy", "192.0.2.1:1", []string{"203.0.113.5"}, "203.0.113.5"},
		{"two proxies", "192.0.2.1:1", []string{"203.0.113.5, 192.0.2.9"}, "203.0.113.5"},
		{"what the client forged stands further left", "192.0.2.1:1", []string{"198.51.100.66, 203.0.113.5"}, "203.0.113.5"},
		{"forged garbage is never reached", "192.0.2.1:1", []string{"<script>, 203.0.113.5"}, "203.0.113.5"},
		{"several lines are one list", "192.0.2.1:1", []string{"198.51.100.66", "203.0.113.5, 192.0.2.9"}, "203.0.113.5"},
		{"all trusted", "192.0.2.1:1", []string{"192.0.2.3, 192.0.2.2"}, "192.0.2.3"},
		{"no header", "192.0.2.1:1", nil, "192.0.2.1"},
		{"an empty header", "192.0.2.1:1", []string{" , "}, "192.0.2.1"},
		{"a port", "192.0.2.1:1", []string{"203.0.113.5:4711"}, "203.0.113.5"},
		{"IPv6 in brackets", "192.0.2.1:1", []string{"[2001:db8:2::5]"}, "2001:db8:2::5"},
		{"IPv6 with a port", "192.0.2.1:1", []string{"[2001:db8:2::5]:4711"}, "2001:db8:2::5"},
		{"mapped, as a dual-stack socket says it", "[::ffff:192.0.2.1]:1", []string{"::ffff:203.0.113.5"}, "203.0.113.5"},
		{"a proxy over IPv6", "[2001:db8:1::1]:1", []string{"203.0.113.5"}, "203.0.113.5"},
		{"what a trusted proxy does not know", "192.0.2.1:1", []string{"unknown"}, codeForwarded},
		{"a proxy's zone id is dropped", "[fe80::1%eth0]:1", nil, "fe80::1"},
	}
	for _, tc := range tests {
		r := httptest.NewRequest("GET", "/update", nil)
		r.RemoteAddr = tc.socket
		for _, f := range tc.forwarded {
			r.Header.Add("X-Forwarded-For", f)
		}
		a, pr := clientPeer(r, trusted)
		got := a.String()
		if pr != nil {
			got = pr.code
		}
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A grant's `from` goes by the peer, not by the address that is published.
func TestGrantFromGoesByThePeer(t *testing.T) {
	w := newWorld(t, func(s *httpSite) { s.TrustedProxies = prefixes("127.0.0.1/32") })
	tests := []struct {
		name    string
		headers []string
		status  int
	}{
		{"from there, through the proxy", []string{"X-Forwarded-For: 192.0.2.44"}, 200},
		{"from elsewhere, through the proxy", []string{"X-Forwarded-For: 198.51.100.1"}, 403},
		{"from elsewhere, claiming to be there", []string{"X-Forwarded-For: 192.0.2.44, 198.51.100.1"}, 403},
		{"from elsewhere, publishing an address of there", []string{"X-Source-IP: 192.0.2.44", "X-Forwarded-For: 198.51.100.1"}, 403},
		{"from the proxy itself", nil, 403},
	}
	for _, tc := range tests {
		a := w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=203.0.113.1", append(tc.headers, bearer(homeToken))...)
		if a.status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
		}
	}
	a := w.do("GET", "/update?fqdn=laptop.dyn.example.org", "X-Forwarded-For: 192.0.2.44", bearer(homeToken))
	if got := w.addresses("laptop.dyn.example.org."); a.status != 200 || !slices.Equal(got, []string{"A 192.0.2.44 60"}) {
		t.Errorf("the peer behind the proxy: got %d, zone holds %v", a.status, got)
	}
}

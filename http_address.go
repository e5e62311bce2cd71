package ddns

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// sourceIPMode is the meaning of the X-Source-IP header.
type sourceIPMode uint8

const (
	sourceIPClient sourceIPMode = iota // the address to publish, from any caller
	sourceIPProxy                      // the same, but only trusted proxies may say it
	sourceIPOff                        // ignored
)

// addressMode is which addresses may be published.
type addressMode uint8

const (
	addressesAny addressMode = iota
	addressesPublic
)

// localPeer is who is at the other end of a unix socket: this machine.
var localPeer = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// maxAddresses bounds the addresses of one request.
const maxAddresses = 64

// socketPeer is the address a request came from.
func socketPeer(r *http.Request) netip.Addr {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		if a, err := netip.ParseAddr(host); err == nil {
			return a.Unmap().WithZone("")
		}
	}
	return localPeer
}

// clientPeer is the address that grants, limits and the log go by: the socket's,
// or the last one in X-Forwarded-For that is not itself a trusted proxy's when
// the socket's is. Whatever stands left of that was written by the client. The
// header Forwarded is not looked at: no proxy in front of us is known to replace
// one that the client sent.
func clientPeer(r *http.Request, trusted []netip.Prefix) (netip.Addr, *problem) {
	peer := socketPeer(r)
	if len(trusted) == 0 || !contains(trusted, peer) {
		return peer, nil
	}
	lines := r.Header["X-Forwarded-For"]
	for _, line := range slices.Backward(lines) {
		for rest := line; rest != ""; {
			var hop string
			if i := strings.LastIndexByte(rest, ','); i >= 0 {
				rest, hop = rest[:i], rest[i+1:]
			} else {
				rest, hop = "", rest
			}
			if hop = strings.TrimSpace(hop); hop == "" {
				continue
			}
			a, ok := parseHop(hop)
			if !ok {
				// A trusted proxy said it, so guessing would make it the client.
				return peer, newProblem(codeForwarded, "X-Forwarded-For from the trusted proxy %s holds something that is not an IP address", peer)
			}
			peer = a
			if !contains(trusted, peer) {
				return peer, nil
			}
		}
	}
	return peer, nil
}

// parseHop reads an entry of X-Forwarded-For. Some proxies add the port.
func parseHop(s string) (netip.Addr, bool) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// publishedAddresses are the addresses a request is about: the parameter ip, else
// X-Source-IP, else the peer. Each is publishable and there is none twice.
func publishedAddresses(r *http.Request, query url.Values, s *httpSite, peer netip.Addr) ([]netip.Addr, *problem) {
	header, pr := sourceIP(r, s)
	if pr != nil {
		return nil, pr
	}
	texts, from := query["ip"], "ip"
	if len(texts) == 0 && header != "" {
		texts, from = []string{header}, "X-Source-IP"
	}
	if len(texts) == 0 {
		if why := unpublishable(peer, s.Addresses); why != "" {
			return nil, newProblem(codeNotPublishable, "the address this request came from, %s, %s; say which address is meant with ip=", peer, why)
		}
		return []netip.Addr{peer}, nil
	}
	var out []netip.Addr
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			a, pr := parseAddress(strings.Trim(one, " \t"), from)
			if pr != nil {
				return nil, pr
			}
			if why := unpublishable(a, s.Addresses); why != "" {
				return nil, newProblem(codeNotPublishable, "%s %s", a, why)
			}
			if slices.Contains(out, a) {
				continue
			}
			if len(out) == maxAddresses {
				return nil, newProblem(codeBadAddress, "more than %d addresses", maxAddresses)
			}
			out = append(out, a)
		}
	}
	return out, nil
}

// sourceIP is the value of X-Source-IP where it counts.
func sourceIP(r *http.Request, s *httpSite) (string, *problem) {
	values := r.Header["X-Source-Ip"]
	if len(values) == 0 || s.SourceIP == sourceIPOff {
		return "", nil
	}
	if s.SourceIP == sourceIPProxy && !contains(s.TrustedProxies, socketPeer(r)) {
		// Not ignored: silence would publish the address of a proxy that
		// somebody forgot to trust.
		return "", newProblem(codeSourceHeader, "X-Source-IP is taken from trusted proxies only, and %s is not one", socketPeer(r))
	}
	if len(values) > 1 {
		return "", newProblem(codeBadAddress, "several X-Source-IP headers")
	}
	if strings.TrimSpace(values[0]) == "" {
		return "", newProblem(codeBadAddress, "X-Source-IP is empty")
	}
	return values[0], nil
}

// parseAddress reads one address as strictly as netip does: no leading zeros,
// which some read as octal, no port, no prefix length. An IPv4-mapped address is
// its IPv4 address.
func parseAddress(text, from string) (netip.Addr, *problem) {
	a, err := netip.ParseAddr(text)
	switch {
	case text == "":
		return a, newProblem(codeBadAddress, "%s holds an empty address", from)
	case err != nil && !echoable(text):
		return a, newProblem(codeBadAddress, "%s holds something that is not an IP address", from)
	case err != nil:
		return a, newProblem(codeBadAddress, "%s: %q is not an IP address", from, text)
	case a.Zone() != "":
		return a, newProblem(codeBadAddress, "%s: an address with a zone id means nothing to others", from)
	}
	return a.Unmap(), nil
}

// echoable reports whether text looks enough like an address to be repeated.
func echoable(text string) bool {
	return len(text) <= 64 && strings.Trim(text, "0123456789abcdefABCDEF.:/[]") == ""
}

// block is a range of addresses with what is said of one in it: "A is …".
type block struct {
	prefix netip.Prefix
	why    string
}

func blocks(why string, cidrs ...string) []block {
	var out []block
	for _, c := range cidrs {
		out = append(out, block{netip.MustParsePrefix(c), why})
	}
	return out
}

// neverPublished holds what can be no one's address to somebody else.
var neverPublished = slices.Concat(
	blocks("is unspecified", "0.0.0.0/32", "::/128"),
	blocks("is a loopback address", "127.0.0.0/8", "::1/128"),
	blocks("is a link-local address", "169.254.0.0/16", "fe80::/10"),
	blocks("is a multicast address", "224.0.0.0/4", "ff00::/8"),
	blocks("is the broadcast address", "255.255.255.255/32"),
	blocks("is in a reserved range", "0.0.0.0/8", "240.0.0.0/4"), // RFC 1122, section 3.2.1.3; RFC 1112, section 4
	blocks("is an obsolete IPv4-compatible address", "::/96"),    // RFC 4291, section 2.5.5.1
)

// notPublic holds what the special-purpose address registries (RFC 6890) say is
// not globally reachable, beside the above.
var notPublic = slices.Concat(
	blocks("is a private address", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"),
	blocks("is a carrier's shared address", "100.64.0.0/10"),
	blocks("is in a range for documentation", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
	blocks("is in a range for benchmarks", "198.18.0.0/15", "2001:2::/48"),
	blocks("is in a range for protocols", "192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "100::/64", "2001:10::/28", "5f00::/16"),
)

// globalUnicast is all of IPv6 that is assigned to be reached (RFC 4291, section
// 2.4, and the IANA registry).
var globalUnicast = netip.MustParsePrefix("2000::/3")

// unpublishable says in half a sentence why an address cannot be published, or
// nothing.
func unpublishable(a netip.Addr, mode addressMode) string {
	if !a.IsValid() {
		return "is no address"
	}
	for _, b := range neverPublished {
		if b.prefix.Contains(a) {
			return b.why
		}
	}
	if mode != addressesPublic {
		return ""
	}
	for _, b := range notPublic {
		if b.prefix.Contains(a) {
			return b.why + ", and only public addresses may be published here"
		}
	}
	if a.Is6() && !globalUnicast.Contains(a) {
		return "is not a global unicast address, and only public addresses may be published here"
	}
	return ""
}

package ddns

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// parse reads one stanza. It checks everything that can be checked without
// touching a file or socket.
func parse(c *caddy.Controller) (*config, error) {
	cfg := defaults()
	for i := 0; c.Next(); i++ {
		if i > 0 {
			return nil, plugin.ErrOnce
		}
		if err := parseZones(c, cfg); err != nil {
			return nil, err
		}
		seen := make(map[string]bool)
		for c.NextBlock() {
			word := c.Val()
			property, ok := properties[word]
			if !ok {
				return nil, c.Errf("unknown property '%s'", word)
			}
			if seen[word] && !property.repeats {
				return nil, c.Errf("property '%s' given twice", word)
			}
			seen[word] = true
			err := property.parse(c, cfg)
			if cfg.oneLine {
				return nil, c.Err("write the block over several lines, one property a line")
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return cfg, finish(c, cfg)
}

// properties are the words of the stanza.
var properties = map[string]struct {
	parse   func(*caddy.Controller, *config) error
	repeats bool
}{
	"file":            {parseFile, true},
	"seed":            {parseSeed, true},
	"ns":              {parseNS, true},
	"store":           {parseStore, false},
	"policy":          {parsePolicy, false},
	"http":            {parseHTTP, false},
	"grpc":            {parseGRPC, false},
	"hooks":           {parseHooks, false},
	"ttl":             {parseTTL, false},
	"source_ip":       {parseSourceIP, false},
	"addresses":       {parseAddresses, false},
	"trusted_proxies": {parseProxies, true},
	"limit":           {parseLimit, true},
	"fallthrough":     {parseFallthrough, false},
}

func parseZones(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	seen := make(map[zone.Name]bool)
	for _, s := range plugin.OriginsFromArgsOrServerBlock(args, c.ServerBlockKeys) {
		n, err := zone.ParseName(s)
		if err != nil {
			return c.Errf("zone '%s': %v", s, err)
		}
		if n == zone.Root {
			return c.Err("the root zone '.' cannot be a dynamic zone: name the zones after 'ddns'")
		}
		switch {
		case seen[n] && len(args) > 0:
			return c.Errf("zone '%s' given twice", s)
		case seen[n]: // the block serves it over several transports
			continue
		}
		seen[n] = true
		cfg.zones = append(cfg.zones, n)
	}
	if len(cfg.zones) == 0 {
		return c.Errf("no usable zone in %v", args)
	}
	return nil
}

// finish checks what only the whole stanza shows.
func finish(c *caddy.Controller, cfg *config) error {
	for _, z := range cfg.zones {
		if cfg.files[z] != "" && cfg.seeds[z] != "" {
			return c.Errf("zone '%s' has both 'file' and 'seed': a file's records are the operator's for ever, a seed's are not", z)
		}
		if cfg.files[z] == "" && cfg.seeds[z] == "" && len(cfg.servers) == 0 {
			return c.Errf("zone '%s' has no apex: give it a 'file', a 'seed', or a name server with 'ns'", z)
		}
	}
	for _, s := range cfg.servers {
		if len(s.addresses) > 0 && cfg.holding(s.name) == "" {
			return c.Errf("ns '%s' is in none of the zones, so its addresses cannot be published here", s.name)
		}
	}
	if cfg.store.kind == "" {
		cfg.store = storeConfig{kind: "bolt", path: absolute(c, defaultStore)}
	}
	return nil
}

// holding is the zone of this stanza that a name belongs to, or empty.
func (c *config) holding(n zone.Name) zone.Name {
	best := zone.Name("")
	for _, z := range c.zones {
		if n.Within(z) && len(z) > len(best) {
			best = z
		}
	}
	return best
}

// absolute makes a path as CoreDNS does: relative to the root plugin's directory,
// or to the working directory.
func absolute(c *caddy.Controller, path string) string {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dnsserver.GetConfig(c).Root, path)
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func parseFile(c *caddy.Controller, cfg *config) error { return parseZoneFile(c, cfg, cfg.files) }
func parseSeed(c *caddy.Controller, cfg *config) error { return parseZoneFile(c, cfg, cfg.seeds) }

func parseZoneFile(c *caddy.Controller, cfg *config, into map[zone.Name]string) error {
	word, args := c.Val(), arguments(c, cfg)
	if len(args) < 1 || len(args) > 2 {
		return c.ArgErr()
	}
	origin := cfg.zones[0]
	if len(args) == 2 {
		n, err := zone.ParseName(args[1])
		if err != nil || cfg.holding(n) != n {
			return c.Errf("%s: '%s' is not a zone of this stanza", word, args[1])
		}
		origin = n
	} else if len(cfg.zones) > 1 {
		return c.Errf("%s '%s': this stanza has several zones, say which one it is for: %s FILE ZONE", word, args[0], word)
	}
	if into[origin] != "" {
		return c.Errf("%s for zone '%s' given twice", word, origin)
	}
	into[origin] = absolute(c, args[0])
	return nil
}

func parseNS(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if len(args) < 1 {
		return c.ArgErr()
	}
	n, err := zone.ParseName(args[0])
	if err != nil {
		return c.Errf("ns '%s': %v", args[0], err)
	}
	s := nameServer{name: n}
	for _, have := range cfg.servers {
		if have.name == n {
			return c.Errf("ns '%s' given twice", args[0])
		}
	}
	for _, a := range args[1:] {
		addr, err := netip.ParseAddr(a)
		if err != nil || addr.Zone() != "" {
			return c.Errf("ns '%s': '%s' is not an IP address", args[0], a)
		}
		s.addresses = append(s.addresses, addr.Unmap())
	}
	cfg.servers = append(cfg.servers, s)
	return nil
}

func parseStore(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if len(args) == 0 {
		return c.ArgErr()
	}
	switch {
	case args[0] == "memory" && len(args) == 1:
		cfg.store = storeConfig{kind: "memory"}
	case args[0] == "bolt" && len(args) == 2:
		cfg.store = storeConfig{kind: "bolt", path: absolute(c, args[1])}
	case args[0] == "bolt" || args[0] == "memory":
		return c.ArgErr()
	default:
		return c.Errf("unknown store '%s', expected 'bolt FILE' or 'memory'", args[0])
	}
	return nil
}

func parsePolicy(c *caddy.Controller, cfg *config) error {
	path, err := oneArg(c, cfg)
	cfg.policy = absolute(c, path)
	return err
}

func parseHTTP(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if len(args) == 1 && args[0] == "off" {
		cfg.http = httpConfig{off: true}
		return nil
	}
	address, files, err := parseListener(c, "http", args)
	if err != nil {
		return err
	}
	cfg.http = httpConfig{address: address, cert: files[0], key: files[1], ca: files[2]}
	return nil
}

func parseGRPC(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if n := len(args); n > 1 && args[n-1] == "reflection" {
		cfg.grpc.reflection = true
		args = args[:n-1]
	}
	if len(args) == 1 && args[0] == "off" {
		return nil
	}
	address, files, err := parseListener(c, "grpc", args)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(address, "unix:") && files[2] == "" {
		return c.Errf("grpc '%s': a TCP listener runs commands for whoever reaches it, so it needs mutual TLS: grpc %s tls CERT KEY CA", address, address)
	}
	if strings.HasPrefix(address, "unix:") && files[0] != "" {
		return c.Errf("grpc '%s': a unix socket has no TLS: the kernel says who calls", address)
	}
	cfg.grpc.address, cfg.grpc.cert, cfg.grpc.key, cfg.grpc.ca = address, files[0], files[1], files[2]
	return nil
}

// parseListener reads ADDRESS [tls CERT KEY [CA]].
func parseListener(c *caddy.Controller, word string, args []string) (address string, files [3]string, err error) {
	if len(args) == 0 {
		return "", files, c.ArgErr()
	}
	if address, err = listenAddress(args[0]); err != nil {
		return "", files, c.Errf("%s '%s': %v", word, args[0], err)
	}
	if len(args) == 1 {
		return address, files, nil
	}
	if args[1] != "tls" || len(args) < 4 || len(args) > 5 {
		return "", files, c.Errf("%s '%s': expected 'tls CERT KEY [CA]' after the address, got '%s'", word, args[0], strings.Join(args[1:], " "))
	}
	for i, f := range args[2:] {
		files[i] = absolute(c, f)
	}
	return address, files, nil
}

// listenAddress accepts host:port, :port and unix:///path.
func listenAddress(s string) (string, error) {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("a unix socket needs an absolute path, as in unix:///run/ddns/ddns.sock")
		}
		return s, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("expected HOST:PORT or unix:///PATH")
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("'%s' is not a port", port)
	}
	if host != "" && host != "localhost" {
		if _, err := netip.ParseAddr(host); err != nil {
			return "", fmt.Errorf("'%s' is not an IP address", host)
		}
	}
	return s, nil
}

func parseHooks(c *caddy.Controller, cfg *config) error {
	s, err := oneArg(c, cfg)
	if err != nil {
		return err
	}
	if path, ok := strings.CutPrefix(s, "unix://"); s != "local" && (!ok || !filepath.IsAbs(path)) {
		return c.Errf("hooks '%s': expected 'local' or unix:///PATH", s)
	}
	cfg.hooks = s
	return nil
}

func parseTTL(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if len(args) != 1 && len(args) != 3 {
		return c.ArgErr()
	}
	var ttls [3]uint32
	for i, a := range args {
		t, err := seconds(a)
		if err != nil {
			return c.Errf("ttl '%s': %v", a, err)
		}
		ttls[i] = t
	}
	cfg.ttl.standard = ttls[0]
	if len(args) == 3 {
		cfg.ttl.least, cfg.ttl.most = ttls[1], ttls[2]
	}
	if cfg.ttl.standard < cfg.ttl.least || cfg.ttl.standard > cfg.ttl.most {
		return c.Errf("ttl: the default of %ds is not between %ds and %ds", cfg.ttl.standard, cfg.ttl.least, cfg.ttl.most)
	}
	return nil
}

// maxTTL is the largest TTL there is. RFC 2181, section 8.
const maxTTL = 1<<31 - 1

// seconds reads a number of seconds or a Go duration of whole seconds.
func seconds(s string) (uint32, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		d, err := time.ParseDuration(s)
		if err != nil || d%time.Second != 0 {
			return 0, fmt.Errorf("expected whole seconds, as in 60 or 5m")
		}
		n = int64(d / time.Second)
	}
	if n < 0 || n > maxTTL {
		return 0, fmt.Errorf("expected 0 to %d seconds", maxTTL)
	}
	return uint32(n), nil
}

func parseSourceIP(c *caddy.Controller, cfg *config) error {
	s, err := oneArg(c, cfg)
	if err != nil {
		return err
	}
	m, ok := map[string]sourceIPMode{"client": sourceIPClient, "proxy": sourceIPProxy, "off": sourceIPOff}[s]
	if !ok {
		return c.Errf("source_ip '%s': expected client, proxy or off", s)
	}
	cfg.sourceIP = m
	return nil
}

func parseAddresses(c *caddy.Controller, cfg *config) error {
	s, err := oneArg(c, cfg)
	if err != nil {
		return err
	}
	m, ok := map[string]addressMode{"any": addressesAny, "public": addressesPublic}[s]
	if !ok {
		return c.Errf("addresses '%s': expected any or public", s)
	}
	cfg.addresses = m
	return nil
}

func parseProxies(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if len(args) == 0 {
		return c.ArgErr()
	}
	for _, a := range args {
		p, err := netip.ParsePrefix(a)
		if err != nil {
			addr, err := netip.ParseAddr(a)
			if err != nil {
				return c.Errf("trusted_proxies '%s': expected an address or CIDR", a)
			}
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		if p.Addr().Is4In6() { // it would contain no peer: theirs are unmapped
			return c.Errf("trusted_proxies '%s': write the IPv4 address as such", a)
		}
		cfg.proxies = append(cfg.proxies, p.Masked())
	}
	return nil
}

func parseLimit(c *caddy.Controller, cfg *config) error {
	args := arguments(c, cfg)
	if len(args) != 2 {
		return c.ArgErr()
	}
	word, value := args[0], args[1]
	if cfg.limits.given[word] {
		return c.Errf("limit %s given twice", word)
	}
	if cfg.limits.given == nil {
		cfg.limits.given = make(map[string]bool)
	}
	cfg.limits.given[word] = true
	switch word {
	case "names", "records", "journal":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 100_000_000 {
			return c.Errf("limit %s '%s': expected a number from 1 to 100000000", word, value)
		}
		*map[string]*int{"names": &cfg.limits.names, "records": &cfg.limits.records, "journal": &cfg.limits.journal}[word] = n
	case "rate", "failures":
		r, err := parseRate(value)
		if err != nil {
			return c.Errf("limit %s '%s': %v", word, value, err)
		}
		*map[string]*rate{"rate": &cfg.limits.update, "failures": &cfg.limits.failures}[word] = r
	default:
		return c.Errf("unknown limit '%s', expected names, records, journal, rate or failures", word)
	}
	return nil
}

// parseRate reads COUNT/DURATION, or "off".
func parseRate(s string) (rate, error) {
	if s == "off" {
		return rate{}, nil
	}
	count, per, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 {
		return rate{}, fmt.Errorf("expected COUNT/DURATION, as in 30/1m, or off")
	}
	if per == "s" || per == "m" || per == "h" {
		per = "1" + per
	}
	d, err := time.ParseDuration(per)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return rate{}, fmt.Errorf("'%s' is not a duration from 1s to 24h", per)
	}
	return rate{n, d}, nil
}

func parseFallthrough(c *caddy.Controller, cfg *config) error {
	cfg.fall.SetZonesFromArgs(arguments(c, cfg))
	return nil
}

// arguments are the words left on the line. A block written on one line gives its
// closing brace as one of them.
func arguments(c *caddy.Controller, cfg *config) []string {
	args := c.RemainingArgs()
	cfg.oneLine = cfg.oneLine || len(args) > 0 && args[len(args)-1] == "}"
	return args
}

func oneArg(c *caddy.Controller, cfg *config) (string, error) {
	args := arguments(c, cfg)
	if len(args) != 1 || args[0] == "" {
		return "", c.ArgErr()
	}
	return args[0], nil
}

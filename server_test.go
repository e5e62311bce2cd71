package ddns_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/dnssec"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/header"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/minimal"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/root"
	_ "github.com/coredns/coredns/plugin/tls"
	_ "github.com/coredns/coredns/plugin/transfer"
	_ "github.com/coredns/coredns/plugin/tsig"
	_ "github.com/coredns/coredns/plugin/view"
	_ "github.com/coredns/coredns/plugin/whoami"
	"github.com/miekg/dns"

	_ "github.com/coredns-ddns/ddns"
	"github.com/coredns-ddns/ddns/internal/loopback"
	"github.com/coredns-ddns/ddns/internal/policy"
)

func init() {
	caddy.Quiet = true
	dnsserver.Quiet = true
	var directives []string
	for _, d := range dnsserver.Directives {
		directives = append(directives, d)
		if d == "dynupdate" {
			directives = append(directives, "ddns")
		}
	}
	if err := dnsserver.SetDirectives(directives); err != nil {
		panic(err)
	}
}

// server is a CoreDNS in this process with a ddns stanza, as a user would run it.
type server struct {
	t        testing.TB
	dir      string
	dns      string // address
	http     string
	instance *caddy.Instance
	corefile string
	token    string // may update every name below dyn.example.org and reload
}

// options change what start writes.
type options struct {
	block  string // lines of the server block beside ddns
	stanza string // further lines of the stanza
	policy string // further blocks of the policy file
	dir    string // to use again
	store  string // "memory" or, by default, a bolt file
	keep   bool   // keep the policy file and token of dir
}

// start runs a server for dyn.example.org.
func start(t testing.TB, o options) *server {
	t.Helper()
	s := &server{t: t, dir: o.dir, dns: freeAddress(t), http: freeAddress(t)}
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	if o.store == "" {
		o.store = "bolt ddns.db"
	}
	tokenFile := filepath.Join(s.dir, "token")
	if b, err := os.ReadFile(tokenFile); err == nil && o.keep {
		s.token = string(b)
	} else {
		s.token = newToken(t)
		s.write("token", s.token)
		s.write("policy", fmt.Sprintf("token all %s {\n update *.dyn.example.org *\n update dyn.example.org *\n update \\*.dyn.example.org *\n reload\n}\n%s", policy.HashToken(s.token), o.policy))
	}
	s.corefile = fmt.Sprintf(`dyn.example.org:%s {
		bind 127.0.0.1
		root %s
		ddns {
			ns ns1.dyn.example.org 127.0.0.1
			store %s
			policy policy
			http %s
			%s
		}
		%s
	}`, port(s.dns), s.dir, o.store, s.http, o.stanza, o.block)
	s.run()
	return s
}

func (s *server) run() {
	s.t.Helper()
	i, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(s.corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		s.t.Fatalf("starting:\n%s\n%v", s.corefile, err)
	}
	s.instance = i
	s.t.Cleanup(s.stop)
	s.serving()
}

// serving returns once the listeners have been asked something: the host cannot end
// one that has not begun to serve, so a reload right after the start would leave it.
func (s *server) serving() {
	for _, network := range []string{"udp", "tcp"} {
		_, _ = s.exchange(network, ".", dns.TypeSOA) // REFUSED will do
	}
}

// stop ends the server as SIGTERM does.
func (s *server) stop() {
	if s.instance == nil {
		return
	}
	for _, err := range s.instance.ShutdownCallbacks() {
		s.t.Errorf("shutting down: %v", err)
	}
	if err := s.instance.Stop(); err != nil {
		s.t.Errorf("stopping: %v", err)
	}
	s.instance = nil
}

// reload has the server take another Corefile, as the reload plugin does.
func (s *server) reload(corefile string) error {
	i, err := s.instance.Restart(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err != nil {
		return err
	}
	s.instance, s.corefile = i, corefile
	s.serving()
	return nil
}

func (s *server) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func newToken(t testing.TB) string {
	t.Helper()
	g, err := policy.Generate(randReader{})
	if err != nil {
		t.Fatal(err)
	}
	return g.Token
}

// freeAddress is one that nothing listens on, neither UDP nor TCP.
func freeAddress(t testing.TB) string {
	t.Helper()
	a, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}

// answer is a reply of the HTTP side.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (s *server) call(method, path string, header ...string) answer {
	s.t.Helper()
	a, err := s.try(method, path, header...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// fresh makes a connection for each request, as devices do.
var fresh = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}

func (s *server) try(method, path string, header ...string) (answer, error) {
	req, err := http.NewRequest(method, "http://"+s.http+path, nil)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := fresh.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if err := json.Unmarshal(b, &a.body); err != nil {
		return a, fmt.Errorf("body %q: %w", b, err)
	}
	return a, nil
}

// update publishes addresses for a name and wants a yes.
func (s *server) update(name string, addresses ...string) answer {
	s.t.Helper()
	a := s.call("GET", updatePath(name, addresses...))
	if a.status != http.StatusOK {
		s.t.Fatalf("updating %s: %d %v", name, a.status, a.body)
	}
	return a
}

func updatePath(name string, addresses ...string) string {
	return "/update?" + url.Values{"fqdn": {name + ".dyn.example.org"}, "ip": addresses}.Encode()
}

// ask queries the server over UDP.
func (s *server) ask(name string, qtype uint16) *dns.Msg {
	s.t.Helper()
	r, err := s.exchange("udp", name, qtype)
	if err != nil {
		s.t.Fatalf("asking for %s: %v", name, err)
	}
	return r
}

func (s *server) exchange(network, name string, qtype uint16) (*dns.Msg, error) {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.RecursionDesired = false
	c := &dns.Client{Net: network, Timeout: 5 * time.Second}
	r, _, err := c.Exchange(m, s.dns)
	return r, err
}

// addresses are the A and AAAA records of a name, in order.
func (s *server) addresses(name string) string {
	s.t.Helper()
	var out []string
	for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA} {
		for _, rr := range s.ask(name+".dyn.example.org", typ).Answer {
			switch r := rr.(type) {
			case *dns.A:
				out = append(out, r.A.String())
			case *dns.AAAA:
				out = append(out, r.AAAA.String())
			}
		}
	}
	return strings.Join(out, " ")
}

package dns_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// pebble runs an ACME server whose validation asks our server, and returns the URL
// of its directory.
func pebble(t testing.TB, s *server, a authority) string {
	t.Helper()
	listen, management := freeAddress(t), freeAddress(t)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listen, "managementListenAddress": management,
		"certificate": a.cert, "privateKey": a.key, "httpPort": 5002, "tlsPort": 5001,
	}})
	if err != nil {
		t.Fatal(err)
	}
	daemon(t, s.dir, []string{"PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0"},
		"pebble", "-config", write(t, s.dir, "pebble.json", string(config)), "-dnsserver", s.dns)
	until(t, 20*time.Second, "Pebble's start", func() bool {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return "https://" + listen + "/dir"
}

// challenged checks that a client has put challenges and taken them away.
func challenged(t testing.TB, s *server) {
	t.Helper()
	if got := s.metric("coredns_ddns_updates_total", `protocol="update"`, `result="changed"`); got < 4 {
		t.Errorf("%v updates changed the zone, want two challenges put and taken away", got)
	}
	if got := s.data("_acme-challenge.dyn.example.org.", dns.TypeTXT); got != "" {
		t.Errorf("a challenge is left: %s", got)
	}
}

// TestLego and TestCertbot get a certificate for the apex and its wildcard, whose
// challenges are two TXT records at one name.
func TestLego(t *testing.T) {
	need(t, "lego", "pebble")
	s := primary(t)
	a := newAuthority(t, s.dir)
	directory := pebble(t, s, a)
	argv := command(t, adapt(t, recipe(t, "dns-update.md", "lego"), "192.0.2.1:53", s.dns), "lego")
	env := []string{"LEGO_CA_CERTIFICATES=" + a.ca, "RFC2136_PROPAGATION_TIMEOUT=10", "RFC2136_POLLING_INTERVAL=1", "RFC2136_SEQUENCE_INTERVAL=1"}
	for argv[0] != "lego" {
		env, argv = append(env, argv[0]), argv[1:]
	}
	last := len(argv) - 1 // the command; options come before it
	argv = append(append([]string{}, argv[:last]...), "--server", directory, "--path", filepath.Join(s.dir, "lego"),
		"--dns.resolvers", s.dns, "--dns.disable-cp", argv[last])
	out := run(t, env, "", argv...)
	if !strings.Contains(out, "Server responded with a certificate") {
		t.Errorf("lego said:\n%s", out)
	}
	challenged(t, s)
}

func TestCertbot(t *testing.T) {
	need(t, "certbot", "pebble")
	s := primary(t)
	a := newAuthority(t, s.dir)
	directory := pebble(t, s, a)
	ini := write(t, s.dir, "rfc2136.ini", adapt(t, recipe(t, "dns-update.md", "rfc2136.ini"), "192.0.2.1", "127.0.0.1", "port = 53", "port = "+port(s.dns)))
	argv := command(t, recipe(t, "dns-update.md", "certbot"), "certbot")
	for i := range argv {
		if argv[i] == "rfc2136.ini" {
			argv[i] = ini
		}
	}
	argv = append(argv, "--server", directory, "--config-dir", filepath.Join(s.dir, "c"), "--work-dir", filepath.Join(s.dir, "w"),
		"--logs-dir", filepath.Join(s.dir, "l"), "--non-interactive", "--agree-tos", "--register-unsafely-without-email")
	out := run(t, []string{"REQUESTS_CA_BUNDLE=" + a.ca}, "", argv...)
	if !strings.Contains(out, "Successfully received certificate") {
		t.Errorf("certbot said:\n%s", out)
	}
	challenged(t, s)
}

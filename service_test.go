package ddns_test

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
)

type randReader struct{}

func (randReader) Read(b []byte) (int, error) { return crand.Read(b) }

func TestUpdateIsAnsweredByTheNextQueryAndSurvivesARestart(t *testing.T) {
	s := start(t, options{})
	a := s.update("laptop", "192.0.2.7", "2001:db8::7")
	if a.body["changed"] != true || a.body["fqdn"] != "laptop.dyn.example.org." {
		t.Errorf("got %v", a.body)
	}
	if got := s.addresses("laptop"); got != "192.0.2.7 2001:db8::7" {
		t.Errorf("got %q", got)
	}
	// One family does not touch the other.
	s.update("laptop", "192.0.2.8")
	if got := s.addresses("laptop"); got != "192.0.2.8 2001:db8::7" {
		t.Errorf("after an IPv4 update: got %q", got)
	}
	if again := s.update("laptop", "192.0.2.8"); again.body["changed"] != false {
		t.Errorf("the same address again: got %v", again.body)
	}
	soa := s.ask("dyn.example.org", dns.TypeSOA)
	s.stop()
	s = start(t, options{dir: s.dir, keep: true})
	if got := s.addresses("laptop"); got != "192.0.2.8 2001:db8::7" {
		t.Errorf("after a restart: got %q", got)
	}
	if got := s.ask("dyn.example.org", dns.TypeSOA); got.Answer[0].String() != soa.Answer[0].String() {
		t.Errorf("SOA after a restart: got %v, want %v", got.Answer[0], soa.Answer[0])
	}
	if a := s.call("DELETE", "/update?fqdn=laptop.dyn.example.org"); a.status != http.StatusOK || a.body["changed"] != true {
		t.Errorf("DELETE: got %d %v", a.status, a.body)
	}
	if r := s.ask("laptop.dyn.example.org", dns.TypeA); r.Rcode != dns.RcodeNameError || len(r.Ns) != 1 {
		t.Errorf("after DELETE: got %v", r)
	}
}

func TestWhatIsRefused(t *testing.T) {
	s := start(t, options{policy: "token one " + "sha256:" + strings.Repeat("00", 32) + " {\n update one.dyn.example.org\n}\n"})
	tests := []struct {
		name, method, path string
		header             []string
		want               int
	}{
		{"no credential", "GET", updatePath("a", "192.0.2.1"), []string{"Authorization", ""}, 401},
		{"an unknown token", "GET", updatePath("a", "192.0.2.1"), []string{"Authorization", "Bearer ddns_x_y"}, 401},
		{"a static name", "GET", updatePath("ns1", "192.0.2.1"), nil, 409},
		{"a zone of somebody else", "GET", "/update?fqdn=a.example.net&ip=192.0.2.1", nil, 404},
		{"an address that is none", "GET", updatePath("a", "192.0.2.256"), nil, 400},
		{"loopback", "GET", updatePath("a", "127.0.0.1"), nil, 422},
		{"no address, from loopback", "GET", updatePath("a"), nil, 422},
		{"a name that is none", "GET", "/update?fqdn=a..dyn.example.org", nil, 400},
		{"an unknown path", "GET", "/nowhere", nil, 404},
		{"a method that is not for it", "PUT", "/update", nil, 405},
		{"an Accept without JSON", "GET", "/ping", []string{"Accept", "text/html"}, 406},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := s.call(test.method, test.path, test.header...)
			if a.status != test.want {
				t.Errorf("got %d %v, want %d", a.status, a.body, test.want)
			}
			if a.header.Get("X-Request-Id") == "" || a.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("got header %v", a.header)
			}
		})
	}
}

func TestReloadOfTheFiles(t *testing.T) {
	s := start(t, options{})
	s.update("laptop", "192.0.2.7")
	policyFile := filepath.Join(s.dir, "policy")
	good, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	s.write("policy", string(good)+"token broken {\n}\n")
	a := s.call("GET", "/reload")
	if a.status != http.StatusUnprocessableEntity || a.body["file"] != policyFile || a.body["line"] == nil {
		t.Errorf("a broken policy: got %d %v", a.status, a.body)
	}
	s.update("laptop", "192.0.2.8") // the old policy stays
	s.write("policy", strings.Replace(string(good), "update *.dyn.example.org *", "update desk.dyn.example.org", 1))
	if a := s.call("POST", "/reload"); a.status != http.StatusOK || a.body["changed"] != true {
		t.Errorf("a changed policy: got %d %v", a.status, a.body)
	}
	if a := s.call("GET", updatePath("laptop", "192.0.2.9")); a.status != http.StatusForbidden {
		t.Errorf("a grant that was taken away: got %d %v", a.status, a.body)
	}
	s.update("desk", "192.0.2.10")
}

func TestStaticFileEditIsOneIncrementalChange(t *testing.T) {
	dir := t.TempDir()
	zoneFile := filepath.Join(dir, "db.dyn")
	text := "@ 3600 SOA ns1 hostmaster 1 3600 600 86400 60\n@ 3600 NS ns1\nns1 3600 A 127.0.0.1\n"
	if err := os.WriteFile(zoneFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{dir: dir, stanza: "file db.dyn"})
	s.update("laptop", "192.0.2.7")
	if err := os.WriteFile(zoneFile, []byte(text+"www 300 A 192.0.2.80\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := s.call("GET", "/reload"); a.status != http.StatusOK || a.body["changed"] != true {
		t.Errorf("got %d %v", a.status, a.body)
	}
	if got := s.addresses("www"); got != "192.0.2.80" {
		t.Errorf("got %q", got)
	}
	if a := s.call("GET", updatePath("www", "192.0.2.9")); a.status != http.StatusConflict {
		t.Errorf("updating the file's name: got %d %v", a.status, a.body)
	}
	if err := os.WriteFile(zoneFile, []byte("@ 3600 SOA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := s.call("GET", "/reload"); a.status != http.StatusUnprocessableEntity || a.body["line"] == nil {
		t.Errorf("a broken zone file: got %d %v", a.status, a.body)
	}
	if got := s.addresses("www"); got != "192.0.2.80" {
		t.Errorf("after a failed reload: got %q", got)
	}
}

// Whatever is put in the place of a zone file, /reload ends, in a few words.
func TestReloadOfWhatIsNoZoneFile(t *testing.T) {
	dir := t.TempDir()
	zoneFile := filepath.Join(dir, "db.dyn")
	good := "@ 3600 SOA ns1 hostmaster 1 3600 600 86400 60\n@ 3600 NS ns1\nns1 3600 A 127.0.0.1\n"
	if err := os.WriteFile(zoneFile, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{dir: dir, stanza: "file db.dyn"})
	for name, tt := range map[string]struct {
		put  func() error
		want string
	}{
		"a pipe":      {func() error { return syscall.Mkfifo(zoneFile, 0o600) }, "not a regular file"},
		"a device":    {func() error { return os.Symlink("/dev/zero", zoneFile) }, "not a regular file"},
		"a directory": {func() error { return os.Mkdir(zoneFile, 0o700) }, "not a regular file"},
		"a long line": {func() error {
			return os.WriteFile(zoneFile, []byte(good+"www 60 A "+strings.Repeat("x", 1<<20)), 0o600)
		}, "(1048"},
	} {
		if err := os.Remove(zoneFile); err != nil {
			t.Fatal(err)
		}
		if err := tt.put(); err != nil {
			t.Fatal(err)
		}
		a := s.call("GET", "/reload")
		reason, _ := a.body["reason"].(string)
		if a.status != http.StatusUnprocessableEntity || a.body["file"] != zoneFile || !strings.Contains(reason, tt.want) || len(reason) > 1000 {
			t.Errorf("%s: got %d %.2000v", name, a.status, a.body)
		}
	}
	if err := errors.Join(os.Remove(zoneFile), os.WriteFile(zoneFile, []byte(good+"www 60 A 192.0.2.1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if a := s.call("GET", "/reload"); a.status != http.StatusOK || s.addresses("www") != "192.0.2.1" {
		t.Errorf("the file is back: got %d %v", a.status, a.body)
	}
}

func TestNoDatabaseIsMadeForAZoneFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "db.dyn")
	if err := os.WriteFile(file, []byte("@ 3600 SOA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	corefile := fmt.Sprintf("dyn.example.org:%s {\n bind 127.0.0.1\n root %s\n ddns {\n file db.dyn\n store bolt ddns.db\n http off\n }\n}", port(freeAddress(t)), dir)
	i, err := caddy.Start(caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"})
	if err == nil {
		_ = i.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), file+":1: ") {
		t.Errorf("starting: %v, want the place in the file", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the directory holds %v, %v: want the zone file alone", left, err)
	}
}

func TestCorefileReloadKeepsEverything(t *testing.T) {
	for _, store := range []string{"memory", "bolt ddns.db"} {
		t.Run(store, func(t *testing.T) {
			s := start(t, options{store: store})
			s.update("laptop", "192.0.2.7")
			if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy policy\n ttl 120", 1)); err != nil {
				t.Fatal(err)
			}
			if got := s.addresses("laptop"); got != "192.0.2.7" {
				t.Errorf("after a reload: got %q", got)
			}
			s.update("desk", "192.0.2.8")
			if r := s.ask("desk.dyn.example.org", dns.TypeA); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != 120 {
				t.Errorf("the new TTL does not count: got %v", r)
			}
			for _, broken := range []string{"policy nowhere", "policy policy\n file nowhere.zone", "nonsense"} {
				if err := s.reload(strings.Replace(s.corefile, "policy policy", broken, 1)); err == nil {
					t.Fatalf("a reload with %q succeeded", broken)
				}
				s.update("desk", "192.0.2.9")
				s.update("desk", "192.0.2.10")
				if got := s.addresses("desk"); got != "192.0.2.10" {
					t.Errorf("after a failed reload: got %q", got)
				}
			}
		})
	}
}

// TestReloadThatOnlySeemsToFail has another plugin's OnShutdown return an error: the
// host then calls OnRestartFailed although the new configuration is running.
func TestReloadThatOnlySeemsToFail(t *testing.T) {
	s := start(t, options{})
	// In front of ours, which the host then does not call.
	s.instance.OnShutdown = append([]func() error{func() error { return errors.New("a plugin that does not end") }}, s.instance.OnShutdown...)
	if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy policy\n ttl 120", 1)); err == nil {
		t.Fatal("the reload does not seem to have failed")
	}
	s.instance = caddy.Instances()[len(caddy.Instances())-1]
	s.update("desk", "192.0.2.8")
	if r := s.ask("desk.dyn.example.org", dns.TypeA); len(r.Answer) != 1 || r.Answer[0].Header().Ttl != 120 {
		t.Errorf("the configuration that runs does not count: got %v", r)
	}
}

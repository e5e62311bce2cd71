//go:build unix

package ddns_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns"
)

// TestReloadOfTheOldConfigurationDoesNotOutliveIt has a /reload that reads slowly
// while the Corefile is reloaded: what it read belongs to the old one.
func TestReloadOfTheOldConfigurationDoesNotOutliveIt(t *testing.T) {
	const text = "@ 3600 SOA ns1 hostmaster 1 3600 600 86400 60\n@ 3600 NS ns1\nns1 3600 A 127.0.0.1\n"
	dir := t.TempDir()
	old, next := filepath.Join(dir, "old.zone"), filepath.Join(dir, "next.zone")
	for _, f := range []struct{ path, line string }{{old, ""}, {next, "from-next 60 A 192.0.2.2\n"}} {
		if err := os.WriteFile(f.path, []byte(text+f.line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, options{dir: dir, stanza: "file old.zone"})
	held, proceed := ddns.HoldZoneFile(t, old)
	s.write("old.zone", text+"from-old 60 A 192.0.2.1\n")
	called := make(chan answer, 1)
	go func() { a, _ := s.try("POST", "/reload"); called <- a }()
	<-held

	reloaded := make(chan error, 1)
	go func() {
		reloaded <- s.reload(strings.Replace(s.corefile, "file old.zone", "file next.zone\n ttl 90", 1))
	}()
	for s.call("GET", updatePath("laptop", "192.0.2.7")).body["records"].([]any)[0].(map[string]any)["ttl"] != 90.0 {
		time.Sleep(5 * time.Millisecond) // until the new configuration answers
	}
	select { // if it does not wait for the call, then not
	case err := <-reloaded:
		reloaded <- err
	case <-time.After(200 * time.Millisecond):
	}
	proceed <- struct{}{}
	a := <-called
	if err := <-reloaded; err != nil {
		t.Fatal(err)
	}
	if r := s.ask("from-old.dyn.example.org", dns.TypeA); r.Rcode != dns.RcodeNameError {
		t.Errorf("the old file is in force: %v after /reload answered %d %v", r.Answer, a.status, a.body)
	}
	if r := s.ask("from-next.dyn.example.org", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("the new file is not in force: got %v", r)
	}
}

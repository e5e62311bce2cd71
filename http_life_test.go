package ddns

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// Errors of the write path, as clients see them.
func TestErrorsOfTheWritePath(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"not permitted", &zone.Error{Code: zone.CodeNotPermitted, Text: "laptop may not"}, 403, codeNotPermitted},
		{"static", &zone.Error{Code: zone.CodeStatic, Text: "x"}, 409, codeStatic},
		{"not in zone", &zone.Error{Code: zone.CodeNotInZone, Text: "x"}, 404, codeZoneNotServed},
		{"prerequisite", &zone.Error{Code: zone.CodePrerequisite, Text: "x"}, 409, codeConflict},
		{"malformed", &zone.Error{Code: zone.CodeMalformed, Text: "x"}, 400, codeBadRequest},
		{"limit", &zone.Error{Code: zone.CodeLimit, Text: "x"}, 422, codeLimit},
		{"invariant", &zone.Error{Code: zone.CodeInvariant, Text: "x"}, 409, codeConflict},
		{"a word nobody knows", &zone.Error{Code: "new", Text: "x"}, 500, codeInternal},
		{"unavailable", fmt.Errorf("committing: %w", zonedb.ErrUnavailable), 503, codeStore},
		{"no space", fmt.Errorf("%w: %w", zonedb.ErrUnavailable, store.ErrNoSpace), 503, codeStore},
		{"busy", zonedb.ErrBusy, 503, codeBusy},
		{"waited too long", context.DeadlineExceeded, 503, codeBusy},
		{"stopped", zonedb.ErrStopped, 503, codeStopping},
		{"not loaded", zonedb.ErrNoZone, 404, codeZoneNotServed},
		{"anything else", errors.New("secret internals"), 500, codeInternal},
	}
	var result error
	w := newWorld(t, func(s *httpSite) {
		s.Update = func(context.Context, zone.Name, zone.Update) (zonedb.Result, error) { return zonedb.Result{}, result }
	})
	for _, tc := range tests {
		result = tc.err
		a := w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", bearer(laptopToken))
		if a.status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
			continue
		}
		checkProblem(t, tc.name, a, tc.code)
		if strings.Contains(a.body, "internals") || strings.Contains(a.body, "may not") {
			t.Errorf("%s: says too much: %s", tc.name, a.body)
		}
	}
}

func TestEveryProblemHasAStatus(t *testing.T) {
	for code, status := range problemStatus {
		if http.StatusText(status) == "" || newProblem(code, "x").status != status {
			t.Errorf("%s: status %d", code, status)
		}
	}
	for _, code := range zoneProblem {
		if _, ok := problemStatus[code]; !ok {
			t.Errorf("%s has no status", code)
		}
	}
}

func TestAddressBesideACNAMEIsAConflict(t *testing.T) {
	w := newWorld(t, nil)
	name := zone.MustName("alias.dyn.example.org")
	set, err := zone.RRset{Owner: name, Type: 5, TTL: 60}.WithData([]string{string(zone.MustName("www.dyn.example.org"))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.db.Zone(zone.MustName(testZone)).Update(t.Context(), zone.Update{Operations: zone.ReplaceRRset(set)}); err != nil {
		t.Fatal(err)
	}
	a := w.do("GET", "/update?fqdn=alias.dyn.example.org&ip=192.0.2.1", bearer(wideToken))
	if a.status != 409 {
		t.Fatalf("got %d %s, want 409", a.status, a.body)
	}
	checkProblem(t, "CNAME", a, codeConflict)
}

// When the process is about to end the listener answers on, and says when to try
// again; when a reload takes the stanza away it closes.
func TestStoppingAnswersUntilTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.res.Release(); err != nil { // OnShutdown without OnRestart
		t.Fatal(err)
	}
	for name, token := range map[string]string{"/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1": laptopToken, "/reload": opsToken} {
		a := w.do("GET", name, bearer(token))
		if a.status != 503 {
			t.Errorf("%s: got %d %s, want 503", name, a.status, a.body)
			continue
		}
		checkProblem(t, name, a, codeStopping)
	}
	if a := w.do("GET", "/ping"); a.status != 200 {
		t.Errorf("ping: got %d, want 200", a.status)
	}
	if a := w.do("GET", "/update?fqdn=laptop.dyn.example.org", bearer(wrongToken)); a.status != 401 {
		t.Errorf("a wrong token: got %d, want 401", a.status)
	}
}

// In the middle of a reload each zone is the newest stanza's that has come up.
func TestZonesNotTakenOverYetStayWithTheOld(t *testing.T) {
	a, b := zone.MustName("a.example.org"), zone.MustName("b.example.org")
	site := func(zones ...zone.Name) *httpSite { return &httpSite{Zones: zones} }
	oldGeneration, newGeneration := resident.NewGeneration(), resident.NewGeneration()
	oldA, oldB, newA, second := site(a), site(b), site(a), site(a)
	v := newHTTPView([]resident.Member[*httpSite]{
		{Site: newA, Generation: newGeneration}, {Site: second, Generation: newGeneration},
		{Site: oldA, Generation: oldGeneration}, {Site: oldB, Generation: oldGeneration, Stopping: true},
	}).made()
	for name, want := range map[string]*httpSite{"x.a.example.org": newA, "b.example.org": oldB} {
		if _, got := v.site(zone.MustName(name)); got == nil || got.httpSite != want || got.stopping != (want == oldB) {
			t.Errorf("%s: the wrong site", name)
		}
	}
	if _, got := v.site(zone.MustName("example.org")); got != nil {
		t.Error("a name in no zone has a site")
	}
	var reloaded []*httpSite
	for _, m := range v.sites {
		reloaded = append(reloaded, m.httpSite)
	}
	// Two stanzas of one generation may have one zone, told apart by view.
	if want := []*httpSite{newA, second, oldB}; !slices.Equal(reloaded, want) {
		t.Errorf("got %d sites, want those that serve something and all of the newest", len(reloaded))
	}
}

// Reloads while clients make fresh connections: none is refused, every answer is
// one of the configurations'.
func TestNothingIsRefusedThroughReloads(t *testing.T) {
	w := newWorld(t, nil)
	var stop atomic.Bool
	asked, gone := make(chan struct{}), make(chan struct{})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for n := 0; !stop.Load(); n++ {
				req, _ := http.NewRequest("GET", fmt.Sprintf("http://%s/update?fqdn=laptop.dyn.example.org&ip=192.0.%d.%d", w.addr, i, n%250+1), nil)
				req.Header.Set("Authorization", laptopToken)
				resp, err := testClient.Do(req)
				if err != nil {
					t.Errorf("refused: %v", err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Errorf("got %d %s", resp.StatusCode, body)
					return
				}
				select {
				case asked <- struct{}{}:
				default:
				}
			}
		})
	}
	go func() { clients.Wait(); close(gone) }()
	g, res := w.gen, w.res
	for n := range 100 {
		g.Restart()
		next := resident.NewGeneration()
		site := *w.site
		r, err := httpListeners.Acquire(next, "127.0.0.1:0", &site, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Addr().String() != w.addr {
			t.Fatal("another socket")
		}
		for range 5 { // both generations are there meanwhile
			select {
			case <-asked:
			case <-gone:
				t.Fatal("no client is left")
			}
		}
		if n%3 == 0 { // fails late
			if err := g.RestartFailed(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := res.Release(); err != nil {
			t.Fatal(err)
		}
		g.Shutdown()
		g, res = next, r
	}
	stop.Store(true)
	clients.Wait()
	t.Cleanup(func() { _ = g.Drop() })
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, caKey := writeCertificate(t, dir, "ca", nil, nil)
	writeCertificate(t, dir, "server", ca, caKey)
	writeCertificate(t, dir, "client", ca, caKey)
	writeCertificate(t, dir, "stranger", nil, nil)
	file := func(n string) string { return filepath.Join(dir, n) }

	config, err := loadTLS(file("server.crt"), file("server.key"), file("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	g := resident.NewGeneration()
	t.Cleanup(func() { _ = g.Drop() })
	res, err := httpListeners.Acquire(g, "127.0.0.1:0", w.site, &resident.Security{Name: "server.crt", Config: config})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	get := func(scheme string, version uint16, client string) (*http.Response, error) {
		tc := &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: version}
		if client != "" {
			pair, err := tls.LoadX509KeyPair(file(client+".crt"), file(client+".key"))
			if err != nil {
				t.Fatal(err)
			}
			tc.Certificates = []tls.Certificate{pair}
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: tc, DisableKeepAlives: true}}
		resp, err := c.Get(scheme + "://" + res.Addr().String() + "/ping")
		if err == nil {
			resp.Body.Close()
		}
		return resp, err
	}
	if resp, err := get("https", 0, "client"); err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 1 {
		t.Errorf("with a client certificate: %v, %v", resp, err)
	}
	if resp, err := get("https", tls.VersionTLS12, "client"); err != nil || resp.StatusCode != 200 {
		t.Errorf("TLS 1.2: %v, %v", resp, err)
	}
	if _, err := get("https", tls.VersionTLS11, "client"); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
	if _, err := get("https", 0, ""); err == nil {
		t.Error("no client certificate was accepted")
	}
	if _, err := get("https", 0, "stranger"); err == nil {
		t.Error("a stranger's certificate was accepted")
	}
	if resp, err := get("http", 0, ""); err == nil && resp.StatusCode == 200 {
		t.Error("plain HTTP was answered on a TLS port")
	}

	// A renewed certificate is served from the next connection on.
	open, err := loadTLS(file("server.crt"), file("server.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	res.SetTLS(open)
	if resp, err := get("https", 0, ""); err != nil || resp.StatusCode != 200 {
		t.Errorf("after SetTLS: %v, %v", resp, err)
	}

	for _, tc := range []struct{ name, cert, key, ca, want string }{
		{"no certificate", "none.crt", "server.key", "", "none.crt"},
		{"no key", "server.crt", "none.key", "", "none.key"},
		{"another's key", "server.crt", "client.key", "", "server.crt with key"},
		{"a certificate that is none", "server.key", "server.key", "", "server.key"},
		{"no authority", "server.crt", "server.key", "none.crt", "none.crt"},
		{"an authority that is none", "server.crt", "server.key", "server.key", "no certificate in it"},
	} {
		ca := tc.ca
		if ca != "" {
			ca = file(ca)
		}
		_, err := loadTLS(file(tc.cert), file(tc.key), ca)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: got %v, want %q in it", tc.name, err, tc.want)
		}
	}
}

// writeCertificate makes NAME.crt and NAME.key, signed by ca or by itself.
func writeCertificate(t testing.TB, dir, name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: ca == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ca == nil {
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for suffix, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

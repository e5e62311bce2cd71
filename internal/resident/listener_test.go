package resident_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/loopback"
	"github.com/coredns-ddns/ddns/internal/resident"
)

// front answers with the names of its sites, newest first; "!" marks a stopping
// one. A path of /block waits, one of /body reads the body first.
type front struct {
	text    atomic.Pointer[string]
	entered chan struct{}
	proceed chan struct{}
}

func (f *front) SetSites(members []resident.Member[string]) {
	var b strings.Builder
	for _, m := range members {
		b.WriteString(m.Site)
		if m.Stopping {
			b.WriteByte('!')
		}
		b.WriteByte(' ')
	}
	s := strings.TrimSpace(b.String())
	f.text.Store(&s)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := *f.text.Load()
	if r.URL.Path == "/block" {
		f.entered <- struct{}{}
		<-f.proceed
	}
	if r.URL.Path == "/body" {
		f.entered <- struct{}{}
		resident.ReadBody(r.Context(), func() { _, _ = io.Copy(io.Discard, r.Body) })
	}
	_, _ = io.WriteString(w, text)
}

type rig struct {
	*resident.Listeners[string]
	fronts chan *front
}

func newRig(t *testing.T, connections int) rig {
	t.Helper()
	r := rig{fronts: make(chan *front, 100)}
	r.Listeners = resident.NewListeners(resident.ListenerOptions[string]{
		Frontend: func(resident.Address) resident.Frontend[string] {
			f := &front{entered: make(chan struct{}), proceed: make(chan struct{})}
			r.fronts <- f
			return f
		},
		Server:      func() *http.Server { return &http.Server{ReadHeaderTimeout: 5 * time.Second} },
		Connections: connections,
		Overflow:    []byte("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
		Grace:       5 * time.Second,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r rig) acquire(t *testing.T, g *resident.Generation, address, site string, s *resident.Security) *resident.Site[string] {
	t.Helper()
	a, err := resident.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Acquire(g, a, site, s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// get makes a fresh connection and one request.
func get(addr net.Addr, path string, tc *tls.Config) (string, error) {
	tr := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: tc,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, addr.Network(), addr.String())
		},
	}
	scheme := "http"
	if tc != nil {
		scheme = "https"
	}
	resp, err := (&http.Client{Transport: tr, Timeout: 10 * time.Second}).Get(scheme + "://localhost" + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func mustGet(t *testing.T, addr net.Addr, want string) {
	t.Helper()
	if got, err := get(addr, "/", nil); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func refused(addr net.Addr) bool {
	_, err := net.Dial(addr.Network(), addr.String())
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)
}

func TestReloadSwapsSitesOnOneSocket(t *testing.T) {
	r := newRig(t, 0)
	g1 := resident.NewGeneration()
	a1, b1 := r.acquire(t, g1, "127.0.0.1:0", "a1", nil), r.acquire(t, g1, "localhost:0", "b1", nil)
	addr := a1.Addr()
	if b1.Addr().String() != addr.String() {
		t.Error("two stanzas of one address have two sockets")
	}
	mustGet(t, addr, "a1 b1")

	g1.Restart()
	g2 := resident.NewGeneration()
	a2 := r.acquire(t, g2, "127.0.0.1:0", "a2", nil)
	mustGet(t, addr, "a2 a1 b1")
	if err := g1.RestartFailed(); err != nil { // b2 did not come up
		t.Fatal(err)
	}
	mustGet(t, addr, "a1 b1")
	if err := a2.Release(); err != nil { // it was told after all: no harm
		t.Fatal(err)
	}

	g1.Restart()
	g3 := resident.NewGeneration()
	a3 := r.acquire(t, g3, "127.0.0.1:0", "a3", nil)
	_ = r.acquire(t, g3, "127.0.0.1:0", "b3", nil)
	for _, s := range []*resident.Site[string]{a1, b1} {
		if err := s.Release(); err != nil {
			t.Fatal(err)
		}
		g1.Shutdown()
	}
	mustGet(t, addr, "a3 b3")
	if a3.Addr().String() != addr.String() {
		t.Error("the socket changed")
	}
	if len(r.fronts) != 1 {
		t.Errorf("%d sockets were bound, want 1", len(r.fronts))
	}
}

func TestReloadThatDropsAnAddressClosesItAndFinishesRequests(t *testing.T) {
	r := newRig(t, 0)
	g1 := resident.NewGeneration()
	old := r.acquire(t, g1, "127.0.0.1:0", "old", nil)
	f := <-r.fronts
	type result struct {
		body string
		err  error
	}
	running := make(chan result)
	go func() {
		body, err := get(old.Addr(), "/block", nil)
		running <- result{body, err}
	}()
	<-f.entered

	g1.Restart()
	g2 := resident.NewGeneration()
	elsewhere := r.acquire(t, g2, "[::ffff:127.0.0.1]:"+freePort(t), "new", nil)
	if err := old.Release(); err != nil {
		t.Fatal(err)
	}
	g1.Shutdown()
	if !refused(old.Addr()) {
		t.Error("the old address still answers")
	}
	mustGet(t, elsewhere.Addr(), "new")
	close(f.proceed)
	if got := <-running; got.err != nil || got.body != "old" {
		t.Errorf("the running request: got %q, %v, want its answer", got.body, got.err)
	}
}

// All stanzas may go in a reload: then there is no newer generation of ours, and
// the address must be closed all the same.
func TestReloadToNothingCloses(t *testing.T) {
	r := newRig(t, 0)
	g := resident.NewGeneration()
	s := r.acquire(t, g, "127.0.0.1:0", "s", nil)
	g.Restart()
	_ = s.Release()
	g.Shutdown()
	if !refused(s.Addr()) {
		t.Error("the address still answers")
	}
}

func TestEndOfTheProcess(t *testing.T) {
	r := newRig(t, 0)
	g := resident.NewGeneration()
	a, b := r.acquire(t, g, "127.0.0.1:0", "a", nil), r.acquire(t, g, "127.0.0.1:0", "b", nil)
	_ = a.Release()
	_ = a.Release()
	g.Shutdown()
	mustGet(t, a.Addr(), "a! b")
	_ = b.Release()
	g.Shutdown()
	mustGet(t, a.Addr(), "a! b!")

	// It was not the end: the same process starts again.
	again := r.acquire(t, g, "127.0.0.1:0", "again", nil)
	mustGet(t, a.Addr(), "again")
	_ = again.Release()

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.Shutdown(ctx); err != nil { // by another stanza
		t.Fatal(err)
	}
	if !refused(a.Addr()) {
		t.Error("still answers after Shutdown")
	}
}

func TestShutdownDoesNotWaitForEver(t *testing.T) {
	r := newRig(t, 0)
	g := resident.NewGeneration()
	s := r.acquire(t, g, "127.0.0.1:0", "s", nil)
	f := <-r.fronts
	go get(s.Addr(), "/block", nil) //nolint:errcheck // is cut off
	<-f.entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cut short", err)
	}
	close(f.proceed)
}

func TestAfterShutdownAnAddressIsBoundAnew(t *testing.T) {
	r := newRig(t, 0)
	address := "127.0.0.1:" + freePort(t)
	old := r.acquire(t, resident.NewGeneration(), address, "old", nil)
	if err := old.Release(); err != nil {
		t.Fatal(err)
	}
	if err := r.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := r.acquire(t, resident.NewGeneration(), address, "new", nil)
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatalf("nobody listens: %v", err)
	}
	c.Close()
}

func TestConflicts(t *testing.T) {
	r := newRig(t, 0)
	g := resident.NewGeneration()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = r.Acquire(g, resident.Address(taken.Addr().String()), "s", nil)
	if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port in use: got %v, want a sentence that names it", err)
	}

	config := serverConfig(t, "x")
	_ = r.acquire(t, g, "127.0.0.1:0", "plain", nil)
	if _, err := r.Acquire(g, "127.0.0.1:0", "tls", &resident.Security{Name: "a.crt", Config: config}); err == nil || !strings.Contains(err.Error(), "plain HTTP for one stanza and TLS (a.crt)") {
		t.Errorf("plain and TLS: got %v", err)
	}
	h := resident.NewGeneration()
	_ = r.acquire(t, h, "127.0.0.1:0", "tls", &resident.Security{Name: "a.crt", Config: config})
	if _, err := r.Acquire(h, "127.0.0.1:0", "tls", &resident.Security{Name: "b.crt", Config: config}); err == nil || !strings.Contains(err.Error(), "a.crt and b.crt") {
		t.Errorf("two certificates: got %v", err)
	}
	if _, err := r.Acquire(h, "127.0.0.1:0", "plain", nil); err == nil {
		t.Error("TLS and plain: no error")
	}
	if err := h.Drop(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Acquire(h, "127.0.0.1:0", "late", nil); !errors.Is(err, resident.ErrDropped) {
		t.Errorf("after Drop: got %v, want ErrDropped", err)
	}
}

func TestTLSComesAndGoesWithReloads(t *testing.T) {
	r := newRig(t, 0)
	one, two := serverConfig(t, "one"), serverConfig(t, "two")
	insecure := &tls.Config{InsecureSkipVerify: true}
	served := func(addr net.Addr) string {
		c, err := tls.Dial("tcp", addr.String(), insecure)
		if err != nil {
			return ""
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	g := resident.NewGeneration()
	s := r.acquire(t, g, "127.0.0.1:0", "plain", nil)
	addr := s.Addr()
	mustGet(t, addr, "plain")
	reload := func(name string, sec *resident.Security) {
		g.Restart()
		next := resident.NewGeneration()
		ns := r.acquire(t, next, "127.0.0.1:0", name, sec)
		_ = s.Release()
		g.Shutdown()
		g, s = next, ns
	}
	reload("tls", &resident.Security{Name: "x", Config: one})
	if got, err := get(addr, "/", insecure); err != nil || got != "tls" || served(addr) != "one" {
		t.Errorf("TLS after plain: got %q, %v, certificate %q", got, err, served(addr))
	}
	s.SetTLS(two)
	if got := served(addr); got != "two" {
		t.Errorf("after SetTLS: certificate %q, want two", got)
	}

	g.Restart() // the new certificate is rolled back with the rest
	next := resident.NewGeneration()
	_ = r.acquire(t, next, "127.0.0.1:0", "failed", &resident.Security{Name: "y", Config: one})
	if got := served(addr); got != "one" {
		t.Errorf("while reloading: certificate %q, want one", got)
	}
	_ = g.RestartFailed()
	if got := served(addr); got != "two" {
		t.Errorf("after the reload failed: certificate %q, want two", got)
	}
	reload("plain again", nil)
	mustGet(t, addr, "plain again")
}

func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, 2)
	s := r.acquire(t, resident.NewGeneration(), "127.0.0.1:0", "s", nil)
	f := <-r.fronts
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		return c, bufio.NewReader(c)
	}
	ask := func(c net.Conn, br *bufio.Reader, path string) int {
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		if path == "/block" {
			<-f.entered
			return 0
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return -1
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	idle, idleReader := dial()
	if got := ask(idle, idleReader, "/"); got != 200 {
		t.Fatalf("got %d", got)
	}
	busy, _ := dial()
	ask(busy, nil, "/block")

	// The next takes the place of the idle one, once the server has noticed that
	// it is idle; until then it is told that there is no room.
	third := make(chan *http.Response, 1)
	for in := false; !in; {
		c, br := dial()
		fmt.Fprint(c, "GET /block HTTP/1.1\r\nHost: x\r\n\r\n")
		go func() {
			resp, _ := http.ReadResponse(br, nil)
			third <- resp
		}()
		select {
		case <-f.entered:
			in = true
		case resp := <-third:
			if resp != nil && resp.StatusCode != 503 {
				t.Fatalf("beyond the bound: got %d, want 503", resp.StatusCode)
			}
			c.Close()
		}
	}
	if _, err := idleReader.ReadByte(); err == nil {
		t.Error("the idle connection was not closed")
	}
	full, fullReader := dial()
	resp, err := http.ReadResponse(fullReader, nil)
	if err != nil || resp.StatusCode != 503 {
		t.Errorf("beyond the bound: got %v, %v, want 503", resp, err)
	}
	full.Close()
	close(f.proceed)
	if resp := <-third; resp == nil || resp.StatusCode != 200 {
		t.Errorf("a connection within the bound: got %v", resp)
	}
}

// TestConnectionsThatSayNothingMakeRoom fills the places with clients that connect
// and wait, send half of a header, or half of a body.
func TestConnectionsThatSayNothingMakeRoom(t *testing.T) {
	for _, test := range []struct{ name, sent string }{
		{"nothing", ""},
		{"half of a header", "GET / HTTP/1.1\r\nHost: x\r\nX-"},
		{"half of a body that nobody wants", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"},
		{"half of a body", "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf"},
	} {
		t.Run(test.name, func(t *testing.T) {
			const places = 4
			r := newRig(t, places)
			s := r.acquire(t, resident.NewGeneration(), "127.0.0.1:0", "s", nil)
			f := <-r.fronts
			for range places {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := io.WriteString(c, test.sent); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(test.sent, "/body") {
					<-f.entered
				}
			}
			began := time.Now()
			for {
				if got, err := get(s.Addr(), "/", nil); err == nil && got == "s" {
					break
				}
				if time.Since(began) > 3*time.Second { // before the time limit for a header frees a place
					t.Fatal("no room was made")
				}
			}
		})
	}
}

func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "ddns") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	address := "unix://" + path

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, 0)
	g := resident.NewGeneration()
	if _, err := r.Acquire(g, resident.Address(address), "s", nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a socket in use: got %v, want a sentence that names it", err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close() // as a process that was killed leaves it
	s := r.acquire(t, g, address, "s", nil)
	mustGet(t, s.Addr(), "s")
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o660 {
		t.Errorf("got mode %v, %v, want 0660", fi.Mode(), err)
	}
	g.Restart()
	_ = s.Release()
	g.Shutdown()
	if !refused(s.Addr()) {
		t.Error("still there after a reload without it")
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Acquire(resident.NewGeneration(), resident.Address(address), "s", nil); err == nil {
		t.Error("a file in the way was replaced")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("a file in the way was changed")
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := loopback.Address()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address)
	return port
}

func serverConfig(t *testing.T, name string) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	template.Subject.CommonName = name
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

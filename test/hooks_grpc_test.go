//go:build linux

package test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// authority is a CA whose certificates are files below a directory.
type authority struct {
	h    *hooking
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority writes NAME.crt and NAME.key.
func newAuthority(h *hooking, name string) *authority {
	a := &authority{h: h}
	a.cert, a.key = a.issue(name, nil)
	return a
}

// issue writes NAME.crt and NAME.key; without a usage they are those of a CA.
func (a *authority) issue(name string, usage []x509.ExtKeyUsage) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.h.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.h.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, ExtKeyUsage: usage, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := c, key
	if usage == nil {
		c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign
	} else {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.h.t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.h.t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(der); err != nil {
		a.h.t.Fatal(err)
	}
	a.h.place(name+".crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	a.h.place(name+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs})), 0o644)
	return c, key
}

// copyPair gives a certificate and its key another name.
func (h *hooking) copyPair(from, to string) {
	h.t.Helper()
	for _, kind := range []string{".crt", ".key"} {
		text, err := os.ReadFile(h.base + "/" + from + kind)
		if err != nil {
			h.t.Fatal(err)
		}
		h.place(to+kind, string(text), 0o644)
	}
}

// overTLS is a TCP address with a CA and, if there is a name, a client certificate.
func overTLS(h *hooking, address, ca, client string) []string {
	where := []string{"-cacert", h.base + "/" + ca + ".crt"}
	if client != "" {
		where = append(where, "-cert", h.base+"/"+client+".crt", "-key", h.base+"/"+client+".key")
	}
	return append(where, address)
}

// TestGrpcurlCallsThePlugin has a client of others call the property grpc of two
// stanzas, one on a unix socket and one on TCP.
func TestGrpcurlCallsThePlugin(t *testing.T) {
	h := prepareHooks(t)
	ca := newAuthority(h, "ca")
	ca.issue("server", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	ca.issue("client", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	other := newAuthority(h, "other")
	other.issue("intruder", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	other.issue("later", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})

	greet := h.script("greet", `sleep "${DDNS_PAUSE:-0}"; echo "hello $DDNS_FQDN"; exit "${DDNS_EXIT:-0}"`+"\n")
	h.define(h.definition("greet", greet, "match *.other.example.org"))
	socket, tcp := h.base+"/hookd/grpc.sock", freeAddress(t)
	configure := func(reflection string, ttl int) {
		stanza := fmt.Sprintf("ttl %d\n grpc unix://%s %s", ttl, socket, reflection)
		text := h.corefile("", stanza) + fmt.Sprintf(`other.example.org:%s {
    bind 127.0.0.1
    ddns {
        ns ns1.other.example.org 127.0.0.1
        store bolt ddns.db
        policy policy
        http %s
        grpc %s tls %s/pair.crt %s/pair.key %s/trust.crt %s
    }
    errors
}
`, port(h.dns), h.http, tcp, h.base, h.base, h.base, reflection)
		h.place("server/Corefile", text, 0o644)
	}
	h.copyPair("server", "pair")
	h.copyPair("ca", "trust")
	configure("", 60)
	h.startPrivileged()
	c := newCaller(h, "root")

	ask := func(env string) string { return `{"hook":{"name":"greet","env":{"DDNS_FQDN":"a."` + env + `}}}` }
	tls := overTLS(h, tcp, "ca", "client")
	for name, where := range map[string][]string{"unix": overUnix(socket), "tcp": tls} {
		if out, err := c.call(where, executeHook, ask("")); err != nil || !strings.Contains(out, `"output": "hello a.\n"`) || strings.Contains(out, `"error"`) {
			t.Errorf("%s: got %v\n%s", name, err, out)
		}
		if out, err := c.call(where, executeHook, ask(`,"DDNS_EXIT":"7"`)); err != nil || !strings.Contains(out, `"error": "exit status 7: hello a."`) || !strings.Contains(out, `"exitCode": 7`) {
			t.Errorf("%s: a hook that fails: got %v\n%s", name, err, out)
		}
		if out, err := c.call(where, executeHook, `{"hook":{"name":"greet","command":["/bin/sh"]}}`); err == nil || !strings.Contains(out, "Code: PermissionDenied") {
			t.Errorf("%s: another command: got %v\n%s", name, err, out)
		}
		for _, service := range []string{"", "hooks.v1.HookService"} {
			if out, err := c.call(where, "grpc.health.v1.Health/Check", `{"service":"`+service+`"}`); err != nil || !strings.Contains(out, `"status": "SERVING"`) {
				t.Errorf("%s: health of %q: got %v\n%s", name, service, err, out)
			}
		}
		if out, err := list(c, where); err == nil || strings.Contains(out, "hooks.v1") {
			t.Errorf("%s: reflection answers without being told to: %s", name, out)
		}
	}
	quick := []string{"-connect-timeout", "2"}
	for name, where := range map[string][]string{
		"no client certificate":          overTLS(h, tcp, "ca", ""),
		"a client certificate of others": overTLS(h, tcp, "ca", "intruder"),
		"the CA itself of others":        overTLS(h, tcp, "ca", "other"),
		"a server that is not trusted":   overTLS(h, tcp, "other", "client"),
		"no TLS":                         {"-plaintext", tcp},
	} {
		if out, err := c.call(append(quick, where...), executeHook, ask("")); err == nil || strings.Contains(out, "hello") {
			t.Errorf("%s: got %v\n%s", name, err, out)
		}
	}

	// A /reload takes new certificates, and new definitions.
	h.copyPair("later", "pair")
	h.copyPair("other", "trust")
	h.define(h.definition("greet", greet, "match *.other.example.org"), h.definition("more", greet, "match *.other.example.org"))
	var report struct{ Stanzas []struct{ Certificates bool } }
	if status := h.json("GET", "/reload", &report); status != http.StatusOK || len(report.Stanzas) != 2 {
		t.Fatalf("reload: got %d %+v", status, report)
	}
	if report.Stanzas[0].Certificates == report.Stanzas[1].Certificates {
		t.Errorf("one of two stanzas has another certificate, the report is %+v", report)
	}
	if out, err := c.call(append(quick, tls...), executeHook, ask("")); err == nil {
		t.Errorf("the certificate of before: got\n%s", out)
	}
	tls = overTLS(h, tcp, "other", "intruder")
	if out, err := c.call(tls, executeHook, `{"hook":{"name":"more","env":{"DDNS_FQDN":"b."}}}`); err != nil || !strings.Contains(out, `hello b.`) {
		t.Errorf("the hook and the certificate of now: got %v\n%s", err, out)
	}

	// Reloads of the Corefile refuse nobody.
	var running sync.WaitGroup
	running.Go(func() { // one that is longer than several reloads
		if out, err := c.call(overUnix(socket), executeHook, `{"hook":{"name":"greet","env":{"DDNS_FQDN":"slow.","DDNS_PAUSE":"0.5"}}}`); err != nil || !strings.Contains(out, "hello slow.") {
			t.Errorf("a call that outlives a reload: got %v\n%s", err, out)
		}
	})
	stop := make(chan struct{})
	var calls atomic.Int64
	for _, where := range [][]string{overUnix(socket), tls} {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if out, err := c.call(where, executeHook, ask("")); err != nil || !strings.Contains(out, "hello a.") {
					t.Errorf("during a reload: got %v\n%s", err, out)
				}
				calls.Add(1)
			}
		})
	}
	for n := range 12 {
		configure([]string{"reflection", ""}[n%2], 61+n)
		h.signal(syscall.SIGUSR1)
		if !h.log.await(reloaded, n+1, 20*time.Second) {
			t.Fatalf("reload %d did not complete\n%s", n+1, tail(h.log.String()))
		}
		for had := calls.Load(); n%3 == 0 && calls.Load() < had+4; { // some between two of them
			time.Sleep(5 * time.Millisecond)
		}
	}
	close(stop)
	running.Wait()
	if calls.Load() < 10 {
		t.Errorf("%d calls prove nothing", calls.Load())
	}
	t.Logf("%d calls during 12 reloads", calls.Load())

	configure("reflection", 90)
	h.signal(syscall.SIGUSR1)
	if !h.log.await(reloaded, 13, 20*time.Second) {
		t.Fatalf("%s", tail(h.log.String()))
	}
	for name, where := range map[string][]string{"unix": overUnix(socket), "tcp": tls} {
		if out, err := list(c, where); err != nil || !strings.Contains(out, "hooks.v1.HookService\n") || !strings.Contains(out, "grpc.health.v1.Health\n") {
			t.Errorf("%s: reflection: got %v\n%s", name, err, out)
		}
	}
	h.configure("", "")
	h.signal(syscall.SIGUSR1)
	if !h.log.await(reloaded, 14, 20*time.Second) {
		t.Fatalf("%s", tail(h.log.String()))
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket of a property that is gone: %v", err)
	}
	if conn, err := net.DialTimeout("tcp", tcp, time.Second); err == nil {
		conn.Close()
		t.Error("the address of a property that is gone is still open")
	}
}

// list asks the server what it serves, with no description of our own.
func list(c *caller, where []string) (string, error) {
	args := append([]string{"-max-time", "10"}, where...)
	return c.run(append(args, "list"))
}

//go:build linux

package hooks_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/hooks"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// An authority signs certificates into files of one directory.
type authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	t.Helper()
	a := &authority{dir: dir, name: name}
	a.cert, a.key = a.make(t, name, nil)
	return a
}

func (a *authority) file(name, kind string) string { return filepath.Join(a.dir, name+"."+kind) }

func (a *authority) make(t *testing.T, name string, usage []x509.ExtKeyUsage) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, ExtKeyUsage: usage,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := tmpl, key
	if usage == nil {
		tmpl.IsCA, tmpl.KeyUsage = true, x509.KeyUsageCertSign
	} else {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, a.file(name, "crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
	writeFile(t, a.file(name, "key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs})), 0o600)
	return cert, key
}

// pki is a CA with a server and a client, and another CA with a client.
func pki(t *testing.T) *authority {
	t.Helper()
	dir := reachable(t)
	ca := newAuthority(t, dir, "ca")
	ca.make(t, "server", []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth})
	ca.make(t, "client", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	other := newAuthority(t, dir, "otherca")
	other.make(t, "stranger", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
	return ca
}

func serveTLS(t *testing.T, ca *authority, sc hooks.ServerConfig) string {
	t.Helper()
	c, err := hooks.ServerTLS(ca.file("server", "crt"), ca.file("server", "key"), ca.file("ca", "crt"))
	if err != nil {
		t.Fatal(err)
	}
	sc.TLS = c
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, sc)
	return l.Addr().String()
}

func TestMutualTLS(t *testing.T) {
	ca := pki(t)
	address := serveTLS(t, ca, hooks.ServerConfig{Executor: local(t, hooks.LocalConfig{Policy: testPolicy(t)})})
	good, err := hooks.ClientTLS(ca.file("client", "crt"), ca.file("client", "key"), ca.file("ca", "crt"))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := hooks.ClientTLS(ca.file("stranger", "crt"), ca.file("stranger", "key"), ca.file("ca", "crt"))
	if err != nil {
		t.Fatal(err)
	}
	insistent := stranger.Clone() // shows its certificate although the server did not name its CA
	insistent.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger.Certificates[0], nil }
	wrongServer, err := hooks.ClientTLS(ca.file("client", "crt"), ca.file("client", "key"), ca.file("otherca", "crt"))
	if err != nil {
		t.Fatal(err)
	}
	asServer, err := hooks.ClientTLS(ca.file("server", "crt"), ca.file("server", "key"), ca.file("ca", "crt"))
	if err != nil {
		t.Fatal(err)
	}
	old := good.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	bare := good.Clone()
	bare.Certificates = nil
	bare.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
	for _, c := range []struct {
		name string
		tls  *tls.Config
		want codes.Code
	}{
		{"a client of the CA", good, codes.OK},
		{"no client certificate", bare, codes.Unavailable},
		{"a client of another CA", stranger, codes.Unavailable},
		{"a client of another CA that insists", insistent, codes.Unavailable},
		{"a certificate that is not for clients", asServer, codes.Unavailable},
		{"TLS 1.2", old, codes.Unavailable},
		{"a server of another CA", wrongServer, codes.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			resp, err := dial(t, address, hooks.DialOptions{TLS: c.tls}).Execute(ctx, &hooksv1.Hook{Name: "fail"})
			if status.Code(err) != c.want {
				t.Errorf("got %v, %v; want %v", resp, err, c.want)
			}
		})
	}
}

func TestTCPNeedsMutualTLS(t *testing.T) {
	ca := pki(t)
	e := local(t, hooks.LocalConfig{})
	s, err := hooks.NewServer(hooks.ServerConfig{Executor: e})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err == nil || !strings.Contains(err.Error(), "needs mutual TLS") {
		t.Errorf("without TLS: got %v", err)
	}
	full, err := hooks.ServerTLS(ca.file("server", "crt"), ca.file("server", "key"), ca.file("ca", "crt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*tls.Config){
		"without client certificates": func(c *tls.Config) { c.ClientAuth = tls.NoClientCert },
		"with unverified clients":     func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert },
		"with the CAs of the system":  func(c *tls.Config) { c.ClientCAs = nil },
		"with TLS 1.2":                func(c *tls.Config) { c.MinVersion = tls.VersionTLS12 },
		"without a certificate":       func(c *tls.Config) { c.Certificates = nil },
	} {
		c := full.Clone()
		edit(c)
		if _, err := hooks.NewServer(hooks.ServerConfig{Executor: e, TLS: c}); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
	if _, err := hooks.ServerTLS(ca.file("server", "crt"), ca.file("client", "key"), ca.file("ca", "crt")); err == nil {
		t.Error("a key of another certificate was taken")
	}
	if _, err := hooks.ServerTLS(ca.file("server", "crt"), ca.file("server", "key"), ca.file("ca", "key")); err == nil {
		t.Error("a CA file without certificate was taken")
	}
}

// The socket lets everybody connect; the server asks the kernel who it is.
func TestPeerCredentials(t *testing.T) {
	needRoot(t)
	l := local(t, hooks.LocalConfig{Policy: testPolicy(t)})
	s, path := serveUnix(t, hooks.ServerConfig{Executor: l})
	curl := grpcurl(t)
	ask := func() string {
		cmd := exec.Command(curl, "-plaintext", "-unix", "-import-path", filepath.Dir(protoFile(t)), "-proto", "hooks.proto", "-d", `{"hook":{"name":"fail"}}`, path, "hooks.v1.HookService/ExecuteHook")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if out := ask(); !strings.Contains(out, "PermissionDenied") || !strings.Contains(out, "uid 65534 may not call") {
		t.Errorf("a user that is not allowed: got %s", out)
	}
	if err := s.Configure(hooks.ServerConfig{Executor: l, AllowUIDs: []uint32{65534}}); err != nil {
		t.Fatal(err)
	}
	if out := ask(); !strings.Contains(out, "exit status 75: broken") {
		t.Errorf("a user that is allowed: got %s", out)
	}
}

// The other way round: who merely was first to make the socket is not told events.
func TestClientAsksWhoServes(t *testing.T) {
	if os.Geteuid() == 0 {
		l := local(t, hooks.LocalConfig{Policy: testPolicy(t)})
		_, path := serveUnix(t, hooks.ServerConfig{Executor: l})
		if _, err := dial(t, "unix://"+path, hooks.DialOptions{}).Execute(t.Context(), &hooksv1.Hook{Name: "fail"}); err != nil {
			t.Errorf("served by root: %v", err)
		}
		// A listener made as nobody, asked by root, who trusts neither it nor its user.
		dir := reachable(t)
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(helper(t), "hook-helper", "squat", filepath.Join(dir, "squat.sock"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cmd.Process.Kill()
			cmd.Wait()
		}()
		eventually(t, "squatting", func() bool { _, err := os.Stat(filepath.Join(dir, "squat.sock")); return err == nil })
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := dial(t, "unix://"+filepath.Join(dir, "squat.sock"), hooks.DialOptions{}).Execute(ctx, &hooksv1.Hook{Name: "fail"})
		if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "served by uid 65534") {
			t.Errorf("served by nobody: got %v", err)
		}
		return
	}
	needRoot(t)
}

// grpcurl finds the client that is not ours; make clients installs it.
func grpcurl(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"grpcurl", "../bin/tools/grpcurl", "../bin/grpcurl"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		// Where every user can run it.
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(reachable(t), "grpcurl")
		writeFile(t, copied, string(b), 0o755)
		return copied
	}
	if os.Getenv("CI") != "" {
		t.Fatal("grpcurl is missing: make clients installs it")
	}
	t.Skip("grpcurl is missing: make clients installs it")
	return ""
}

// protoFile is a copy of the committed hooks.proto, where every user can read it.
func protoFile(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../proto/hooks/v1/hooks.proto")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(reachable(t), "hooks.proto")
	writeFile(t, path, string(b), 0o644)
	return path
}

func TestGrpcurl(t *testing.T) {
	curl := grpcurl(t)
	ca := pki(t)
	l := local(t, hooks.LocalConfig{Policy: testPolicy(t)})
	_, path := serveUnix(t, hooks.ServerConfig{Executor: l, Reflection: true})
	_, silent := serveUnix(t, hooks.ServerConfig{Executor: l})
	address := serveTLS(t, ca, hooks.ServerConfig{Executor: l})
	proto := []string{"-import-path", filepath.Dir(protoFile(t)), "-proto", "hooks.proto"}
	mtls := []string{"-cacert", ca.file("ca", "crt"), "-cert", ca.file("client", "crt"), "-key", ca.file("client", "key")}
	overUnix := []string{"-plaintext", "-unix"}
	method := "hooks.v1.HookService/ExecuteHook"
	show := `{"hook":{"name":"show","env":{"DDNS_FQDN":"a.example."}}}`
	for _, c := range []struct {
		name   string
		args   [][]string
		body   string
		target []string
		want   []string
	}{
		{"over the unix socket", [][]string{overUnix, proto}, show, []string{path, method}, []string{`DDNS_FQDN=a.example.`, `"started": true`}},
		{"over mutual TLS", [][]string{mtls, proto}, show, []string{address, method}, []string{`DDNS_FQDN=a.example.`, `"started": true`}},
		{"a failure is a reply", [][]string{overUnix, proto}, `{"hook":{"name":"fail"}}`, []string{path, method}, []string{`"error": "exit status 75: broken"`, `"exitCode": 75`}},
		{"a refusal is a status", [][]string{overUnix, proto}, `{"hook":{"name":"fail","command":["/bin/sh"]}}`, []string{path, method}, []string{"Code: PermissionDenied"}},
		{"no request", [][]string{overUnix, proto}, `{}`, []string{path, method}, []string{"Code: InvalidArgument"}},
		{"no client certificate", [][]string{mtls[:2], proto}, show, []string{address, method}, []string{"certificate required"}},
		{"a client of another CA", [][]string{mtls[:2], {"-cert", ca.file("stranger", "crt"), "-key", ca.file("stranger", "key")}, proto}, show,
			[]string{address, method}, []string{"remote error: tls"}},
		{"plain text to TLS", [][]string{{"-plaintext"}, proto}, show, []string{address, method}, []string{"Failed to dial"}},
		{"reflection by option", [][]string{overUnix}, "", []string{path, "list"}, []string{"hooks.v1.HookService", "grpc.health.v1.Health"}},
		{"no reflection without", [][]string{overUnix}, "", []string{silent, "list"}, []string{"reflection"}},
		{"health over reflection", [][]string{overUnix}, `{"service":"hooks.v1.HookService"}`, []string{path, "grpc.health.v1.Health/Check"}, []string{`"status": "SERVING"`}},
		{"health of one guarantee", [][]string{overUnix}, `{"service":"hooks.v1.HookService/users"}`, []string{path, "grpc.health.v1.Health/Check"},
			[]string{map[bool]string{true: `"status": "SERVING"`, false: `"status": "NOT_SERVING"`}[os.Geteuid() == 0]}},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"-max-time", "5", "-connect-timeout", "2"}
			for _, a := range c.args {
				args = append(args, a...)
			}
			if c.body != "" {
				args = append(args, "-d", c.body)
			}
			out, _ := exec.Command(curl, append(args, c.target...)...).CombinedOutput()
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("got %s, want %s", out, want)
				}
			}
		})
	}
}

// A crowd that is not let in must not keep those out who are.
func TestConnectionsAreBounded(t *testing.T) {
	l := local(t, hooks.LocalConfig{Policy: testPolicy(t)})
	_, path := serveUnix(t, hooks.ServerConfig{Executor: l})
	before := descriptors(t)
	var conns []net.Conn
	for range 200 {
		c, err := net.Dial("unix", path)
		if err != nil {
			break // the kernel's queue is full too
		}
		conns = append(conns, c)
	}
	time.Sleep(50 * time.Millisecond)
	if got := descriptors(t) - before - len(conns); got > 70 {
		t.Errorf("the server holds %d connections", got)
	}
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "serving again", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := dial(t, "unix://"+path, hooks.DialOptions{}).Execute(ctx, &hooksv1.Hook{Name: "fail"})
		return err == nil
	})
}

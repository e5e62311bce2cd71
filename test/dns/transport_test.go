package dns_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/coredns/coredns/pb"
	"github.com/miekg/dns"
	"github.com/quic-go/quic-go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// authority is a CA of one test, with a certificate for 127.0.0.1 by it.
type authority struct {
	pool          *x509.CertPool
	ca, cert, key string // files
}

func newAuthority(t testing.TB, dir string) authority {
	t.Helper()
	issue := func(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) []byte {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	generate := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	caKey, key := generate(), generate()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER := issue(ca, ca, &caKey.PublicKey, caKey)
	leafDER := issue(leaf, ca, &key.PublicKey, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, kind string, der []byte) string {
		return write(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	a := authority{
		pool: x509.NewCertPool(),
		ca:   file("ca.pem", "CERTIFICATE", caDER), cert: file("cert.pem", "CERTIFICATE", leafDER), key: file("key.pem", "PRIVATE KEY", keyDER),
	}
	text, err := os.ReadFile(a.ca)
	if err != nil || !a.pool.AppendCertsFromPEM(text) {
		t.Fatal("reading the CA's certificate back")
	}
	return a
}

// transport carries one message and brings the reply, or an error when the server
// would not take it.
type transport struct {
	name    string
	updates bool // whether UPDATE is taken over it
	carry   func(wire []byte) ([]byte, error)
}

func stream(conn net.Conn, err error, wire []byte) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	c := &dns.Conn{Conn: conn}
	if _, err := c.Write(wire); err != nil {
		return nil, err
	}
	buf := make([]byte, dns.MaxMsgSize)
	n, err := c.Read(buf)
	return buf[:n], err
}

func overHTTPS(client *http.Client, address string, wire []byte) ([]byte, error) {
	resp, err := client.Post("https://"+address+"/dns-query", "application/dns-message", bytes.NewReader(wire))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return body, err
}

// overQUIC is RFC 9250: one stream a message, with its length in front.
func overQUIC(config *tls.Config, address string, wire []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	config = config.Clone()
	config.NextProtos = []string{"doq"}
	conn, err := quic.DialAddr(ctx, address, config, nil)
	if err != nil {
		return nil, err
	}
	defer conn.CloseWithError(0, "")
	s, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return nil, err
	}
	// RFC 9250, section 4.2.1: the message id is 0.
	wire = append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
	wire[2], wire[3] = 0, 0
	if _, err := s.Write(wire); err != nil {
		return nil, err
	}
	s.Close()
	reply, err := io.ReadAll(s)
	if err != nil || len(reply) < 2 {
		return nil, errors.Join(err, errors.New("no reply"))
	}
	return reply[2:], nil
}

func overGRPC(config *tls.Config, address string, wire []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reply, err := pb.NewDnsServiceClient(conn).Query(ctx, &pb.DnsPacket{Msg: wire})
	if err != nil {
		return nil, err
	}
	return reply.GetMsg(), nil
}

// signature makes the ways to sign, or not to sign, a message.
type signature struct {
	name  string
	valid bool
	sign  func(t testing.TB, m *dns.Msg) []byte
}

func signedWith(key, secret string, skew time.Duration) func(testing.TB, *dns.Msg) []byte {
	return func(t testing.TB, m *dns.Msg) []byte {
		m = m.Copy()
		m.SetTsig(key, dns.HmacSHA256, 300, time.Now().Add(skew).Unix())
		m.IsTsig().OrigId = m.Id
		wire, _, err := dns.TsigGenerate(m, secret, "", false)
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
}

// TestOnlyAValidSignatureOnThreeTransportsChangesAnything is the whole matrix.
func TestOnlyAValidSignatureOnThreeTransportsChangesAnything(t *testing.T) {
	s := prepare(t, "")
	a := newAuthority(t, s.dir)
	dot, doh, doq, rpc := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	s.start(fmt.Sprintf("dyn.example.org:%s tls://dyn.example.org:%s https://dyn.example.org:%s quic://dyn.example.org:%s grpc://dyn.example.org:%s ",
		port(s.dns), port(dot), port(doh), port(doq), port(rpc)) + fmt.Sprintf(`{
    tls %s %s
    tsig {
    }
    ddns {
        ns ns1.dyn.example.org 127.0.0.1
        policy policy
    }
    errors
}
`, a.cert, a.key))

	config := &tls.Config{RootCAs: a.pool, ServerName: "localhost"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}, Timeout: 10 * time.Second}
	transports := []transport{
		{"UDP", true, func(w []byte) ([]byte, error) { c, err := net.Dial("udp", s.dns); return stream(c, err, w) }},
		{"TCP", true, func(w []byte) ([]byte, error) { c, err := net.Dial("tcp", s.dns); return stream(c, err, w) }},
		{"DoT", true, func(w []byte) ([]byte, error) { c, err := tls.Dial("tcp", dot, config); return stream(c, err, w) }},
		{"DoH", false, func(w []byte) ([]byte, error) { return overHTTPS(client, doh, w) }},
		{"DoQ", false, func(w []byte) ([]byte, error) { return overQUIC(config, doq, w) }},
		{"gRPC", false, func(w []byte) ([]byte, error) { return overGRPC(config, rpc, w) }},
	}
	// "replayed" is what an onlooker of a valid message over TCP sends.
	replayed := func(t testing.TB, m *dns.Msg) []byte {
		wire := signedWith(fullKey, secret, 0)(t, m)
		if reply, err := transports[1].carry(wire); err != nil || reply[3]&0xf != dns.RcodeSuccess {
			t.Fatalf("the original: %v", err)
		}
		return wire
	}
	signatures := []signature{
		{"no TSIG", false, func(t testing.TB, m *dns.Msg) []byte {
			wire, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			return wire
		}},
		{"unknown key", false, signedWith("nobody.example.org.", secret, 0)},
		{"wrong MAC", false, signedWith(fullKey, "d3Jvbmc=", 0)},
		{"bad time", false, signedWith(fullKey, secret, -time.Hour)},
		{"replayed", false, replayed},
		{"valid", true, signedWith(fullKey, secret, 0)},
	}
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			wire, err := query("dyn.example.org.", dns.TypeSOA).Pack()
			if err != nil {
				t.Fatal(err)
			}
			// The transport works: it is the opcode or the signature that is refused below.
			until(t, 10*time.Second, "an answer over "+tr.name, func() bool {
				reply, err := tr.carry(wire)
				return err == nil && len(reply) > 12 && reply[7] == 1 // one answer
			})
			for i, sig := range signatures {
				t.Run(sig.name, func(t *testing.T) {
					m := new(dns.Msg)
					m.SetUpdate("dyn.example.org.")
					rr, err := dns.NewRR(fmt.Sprintf("%s-%d.dyn.example.org. 60 A 192.0.2.1", tr.name, i))
					if err != nil {
						t.Fatal(err)
					}
					m.Insert([]dns.RR{rr})
					wire := sig.sign(t, m)
					before := s.serial("dyn.example.org.")
					reply, err := tr.carry(wire)
					want := tr.updates && sig.valid
					if want && (err != nil || reply[3]&0xf != dns.RcodeSuccess) {
						t.Errorf("refused: %v", err)
					}
					if !want && err == nil && reply[3]&0xf == dns.RcodeSuccess {
						t.Error("answered NOERROR")
					}
					if changed := s.serial("dyn.example.org.") != before; changed != want {
						t.Errorf("changed: %v, want %v", changed, want)
					}
				})
			}
		})
	}
}

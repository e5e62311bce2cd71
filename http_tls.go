package ddns

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/coredns-ddns/ddns/internal/plain"
)

// loadTLS reads a certificate chain with its key and, when ca is not empty, the
// authorities that client certificates must come from. Every error names the file
// that is wrong.
func loadTLS(cert, key, ca string) (*tls.Config, error) {
	certPEM, err := plain.Read(cert, plain.Certificates)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	keyPEM, err := plain.Read(key, plain.Certificates)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate's key: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		// The library's words name neither file, and never hold key material.
		return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	c := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"http/1.1"},
	}
	if ca == "" {
		return c, nil
	}
	caPEM, err := plain.Read(ca, plain.Certificates)
	if err != nil {
		return nil, fmt.Errorf("reading the clients' certificate authority: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(caPEM) {
		return nil, fmt.Errorf("certificate authority %s: no certificate in it", ca)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}

package hooks

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/coredns-ddns/ddns/internal/plain"
)

// ServerTLS reads what a TCP hook server needs: its certificate and key, and the CA
// that signs those of its clients. Only TLS 1.3 with a client certificate is spoken.
// To renew any of the three, read them again and Configure the Server.
func ServerTLS(certFile, keyFile, clientCAFile string) (*tls.Config, error) {
	cert, pool, err := readCertificates(certFile, keyFile, clientCAFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    pool,
		// A resumed session would be judged by the CA of the day it began.
		SessionTicketsDisabled: true,
	}, nil
}

// ClientTLS reads what a client of a TCP hook server needs.
func ClientTLS(certFile, keyFile, serverCAFile string) (*tls.Config, error) {
	cert, pool, err := readCertificates(certFile, keyFile, serverCAFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool}, nil
}

func readCertificates(certFile, keyFile, caFile string) (tls.Certificate, *x509.CertPool, error) {
	certPEM, err := plain.Read(certFile, plain.Certificates)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("reading the certificate: %w", err)
	}
	keyPEM, err := plain.Read(keyFile, plain.Certificates)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("reading the certificate's key: %w", err)
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return cert, nil, fmt.Errorf("reading the certificate %s and the key %s: %w", certFile, keyFile, err)
	}
	pem, err := plain.Read(caFile, plain.Certificates)
	if err != nil {
		return cert, nil, fmt.Errorf("reading the CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return cert, nil, fmt.Errorf("reading the CA %s: it has no certificate in PEM", caFile)
	}
	return cert, pool, nil
}

// checkServerTLS refuses a configuration under which anybody could call.
func checkServerTLS(c *tls.Config) error {
	switch {
	case c.ClientAuth != tls.RequireAndVerifyClientCert || c.ClientCAs == nil:
		return errors.New("the hook server needs mutual TLS: clients must show a certificate of a CA that it names")
	case c.MinVersion < tls.VersionTLS13:
		return errors.New("the hook server needs TLS 1.3")
	case len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil:
		return errors.New("the hook server needs a certificate")
	}
	return nil
}

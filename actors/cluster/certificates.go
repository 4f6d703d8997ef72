package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificates makes the settings by which nodes know each other: each shows a certificate
// (cert and key, PEM) that the authority in ca has signed, and takes only such ones. The
// certificate is read again when its file has changed; the authority is not.
func Certificates(cert, key, ca string, log *slog.Logger) (*tls.Config, error) {
	authority, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("cluster.tls_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, errors.New("cluster.tls_ca: there is no certificate in " + ca)
	}
	own := &ownCertificate{cert: cert, key: key, log: log, stat: os.Stat}
	if _, err := own.get(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return own.get() },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own.get() },
	}, nil
}

// ownCertificate is a node's certificate as its file has it.
type ownCertificate struct {
	cert, key string
	log       *slog.Logger
	stat      func(name string) (os.FileInfo, error)

	mu      sync.Mutex
	read    *tls.Certificate
	written time.Time
	trouble string // what was logged last
}

// get is the certificate; the one of before while a new one cannot be read.
func (c *ownCertificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file, err := c.stat(c.cert)
	var pair tls.Certificate
	switch { // a file that is not there is not read: it may come between the two
	case err == nil && c.read != nil && file.ModTime().Equal(c.written):
		return c.read, nil
	case err == nil:
		pair, err = tls.LoadX509KeyPair(c.cert, c.key)
	}
	switch {
	case err == nil:
		if c.read != nil {
			c.log.Info("the node's certificate was read again", "file", c.cert, "ends", pair.Leaf.NotAfter)
		}
		c.read, c.written, c.trouble = &pair, file.ModTime(), ""
	case c.read == nil:
		return nil, fmt.Errorf("cluster.tls_cert, cluster.tls_key: %w", err)
	case c.trouble != err.Error():
		c.trouble = err.Error()
		c.log.Warn("the node's certificate cannot be read again; the one of before is shown", "file", c.cert, "error", err)
	}
	return c.read, nil
}

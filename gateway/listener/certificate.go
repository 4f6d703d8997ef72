package listener

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// Certificate is a certificate in two files, which are read again when they change:
// whoever renews it need not restart the server.
type Certificate struct {
	cert, key string
	failed    func(error)

	mu     sync.Mutex
	loaded *tls.Certificate
	stamp  [2]stamp
	next   time.Time // when the files are looked at again
}

// stamp tells one state of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

// lookEvery is how often the files are looked at, at most, and only by handshakes.
const lookEvery = 5 * time.Second

// LoadCertificate reads a certificate chain and its key, both PEM. failed hears of a
// later change that cannot be used; the certificate of before stays in force then.
func LoadCertificate(cert, key string, failed func(error)) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, failed: failed}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config is TLS 1.2 or later with HTTP/1.1, the only version that is served.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.get}
}

func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); !now.Before(c.next) {
		c.next = now.Add(lookEvery)
		if stamps, err := c.look(); err != nil || stamps != c.stamp {
			if err = c.load(); err != nil && c.failed != nil {
				c.failed(err)
			}
		}
	}
	return c.loaded, nil
}

func (c *Certificate) look() (now [2]stamp, err error) {
	for i, name := range []string{c.cert, c.key} {
		file, err := os.Stat(name)
		if err != nil {
			return now, err
		}
		now[i] = stamp{file.ModTime(), file.Size()}
	}
	return now, nil
}

// load reads the files. A key that does not fit its certificate, as in the moment
// between the two being replaced, is an error and is tried again.
func (c *Certificate) load() error {
	stamps, err := c.look()
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("read the certificate %s with the key %s: %w", c.cert, c.key, err)
	}
	c.loaded, c.stamp, c.next = &pair, stamps, time.Now().Add(lookEvery)
	return nil
}

package listener

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// write puts a new self-signed certificate of that number into two files.
func write(t *testing.T, dir string, number int64) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// shown is the number of the certificate that is in force.
func (c *Certificate) shown(t *testing.T) int64 {
	t.Helper()
	c.next = time.Time{} // the time to look has come
	pair, err := c.get(nil)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.SerialNumber.Int64()
}

func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	failures := 0
	cert, key := write(t, dir, 1)
	c, err := LoadCertificate(cert, key, func(error) { failures++ })
	if err != nil {
		t.Fatal(err)
	}
	if n := c.shown(t); n != 1 || failures != 0 {
		t.Errorf("it shows %d, %d failures", n, failures)
	}
	if err := os.WriteFile(key, []byte("half of a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := c.shown(t); n != 1 || failures != 1 {
		t.Errorf("with a broken key it shows %d, %d failures", n, failures)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if n := c.shown(t); n != 1 || failures != 2 {
		t.Errorf("without the file it shows %d, %d failures", n, failures)
	}
	write(t, dir, 20_000_000)
	if n := c.shown(t); n != 20_000_000 || failures != 2 {
		t.Errorf("after the change it shows %d, %d failures", n, failures)
	}
	if _, err := LoadCertificate(filepath.Join(dir, "none"), key, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TLS 1.2 and later, HTTP/1.1 only; the connections that are kept are those below.
func TestTLS(t *testing.T) {
	c, err := LoadCertificate(write2(t))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(inner, Settings{TLS: c.Config()})
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	for _, x := range []struct {
		highest uint16
		works   bool
	}{{tls.VersionTLS11, false}, {tls.VersionTLS12, true}, {tls.VersionTLS13, true}} {
		conn, err := tls.Dial("tcp", inner.Addr().String(), &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: x.highest, NextProtos: []string{"h2", "http/1.1"},
		})
		if (err == nil) != x.works {
			t.Fatalf("up to %s: %v", tls.VersionName(x.highest), err)
		}
		if err != nil {
			continue
		}
		if p := conn.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
			t.Errorf("it speaks %q", p)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
	unused, err := tls.Dial("tcp", inner.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	l.CloseUnused() // its handshake is not a use
	if _, err := unused.Read(make([]byte, 1)); err == nil {
		t.Error("a connection that was only made stays")
	}
	l.CloseAll()
	if l.Count() != 0 {
		t.Errorf("%d are open", l.Count())
	}
}

func write2(t *testing.T) (cert, key string, failed func(error)) {
	cert, key = write(t, t.TempDir(), 1)
	return cert, key, nil
}

package cluster_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/actors/cluster"
)

// write makes a certificate that is its own authority, in a directory.
func write(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	made, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: made}, "key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Duration(serial) * time.Hour) // files may be written within one tick of their clock
	if err := os.Chtimes(filepath.Join(dir, "cert"), later, later); err != nil {
		t.Fatal(err)
	}
}

// A certificate that has changed is shown by the next handshake; while it cannot be read, the
// one of before is.
func TestCertificatesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	write(t, dir, 1)
	var logged strings.Builder
	c, err := cluster.Certificates(cert, key, cert, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		t.Helper()
		got, err := c.GetCertificate(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Leaf.SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("the first is %d", n)
	}
	write(t, dir, 2)
	if n := serial(); n != 2 {
		t.Errorf("the second is %d", n)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Errorf("without a file it is %d", n)
	}
	serial()
	if said := logged.String(); strings.Count(said, "was read again") != 1 || strings.Count(said, "cannot be read again") != 1 {
		t.Errorf("logged:\n%s", said)
	}
}

// Each of the files is named that cannot be used.
func TestCertificateErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 1)
	cert, key, none := filepath.Join(dir, "cert"), filepath.Join(dir, "key"), filepath.Join(dir, "none")
	for want, files := range map[string][3]string{
		"cluster.tls_ca: open":              {cert, key, none},
		"cluster.tls_ca: there is no":       {cert, key, key},
		"cluster.tls_cert, cluster.tls_key": {none, key, cert},
	} {
		if _, err := cluster.Certificates(files[0], files[1], files[2], slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}

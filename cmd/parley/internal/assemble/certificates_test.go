package assemble

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/cmd/parley/internal/config"
)

// authority signs the certificates of nodes.
type authority struct {
	*testing.T
	dir  string
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{T: t, dir: t.TempDir(), key: key}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	a.cert.Subject.CommonName = name
	made, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, public, key)
	if err != nil {
		t.Fatal(err)
	}
	a.file("ca", "CERTIFICATE", made)
	return a
}

func (a *authority) file(name, kind string, content []byte) {
	a.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		a.Fatal(err)
	}
}

// sign writes the certificate of a node, and its key.
func (a *authority) sign(node string, serial int64) {
	a.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	made, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, public, a.key)
	if err != nil {
		a.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	a.file(node+".key", "PRIVATE KEY", private)
	a.file(node+".crt", "CERTIFICATE", made)
	later := time.Now().Add(time.Duration(serial) * time.Hour) // files may be written within one tick of their clock
	if err := os.Chtimes(filepath.Join(a.dir, node+".crt"), later, later); err != nil {
		a.Fatal(err)
	}
}

// node is how the program has a node speak TLS.
func (a *authority) node(name string) *tls.Config {
	a.Helper()
	c := config.Default()
	c.Cluster.Cert, c.Cluster.Key, c.Cluster.CA = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key"), filepath.Join(a.dir, "ca")
	o, err := Cluster(&c, "v", slog.New(slog.DiscardHandler))
	if err != nil {
		a.Fatal(err)
	}
	return o.TLS
}

// meet has one node call another, and gives the serial numbers that each has seen.
func meet(t *testing.T, caller, called *tls.Config) (seenByCaller, seenByCalled int64, err error) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", called)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	seen := make(chan int64, 1)
	go func() {
		defer close(seen)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if s := c.(*tls.Conn); s.Handshake() == nil {
			seen <- s.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
			_, _ = s.Write([]byte("x"))
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), caller)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err != nil { // with TLS 1.3 a refusal comes behind the handshake
		return 0, 0, err
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), <-seen, nil
}

// Nodes take each other by the certificates that the configuration names, also when these are
// renewed while they run, and take nobody whom another authority has signed.
func TestNodesKnowEachOther(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	ours.sign("a", 11)
	ours.sign("b", 12)
	theirs.sign("c", 13)
	a, b, c := ours.node("a"), ours.node("b"), theirs.node("c")
	for range 2 {
		if seen, shown, err := meet(t, a, b); err != nil || seen != 12 || shown != 11 {
			t.Errorf("a has seen %d, and b %d: %v", seen, shown, err)
		}
	}
	for name, pair := range map[string][2]*tls.Config{"calls": {c, a}, "is called": {a, c}} {
		if _, _, err := meet(t, pair[0], pair[1]); err == nil {
			t.Errorf("a node of another authority %s, and is taken", name)
		}
	}
	ours.sign("a", 21)
	ours.sign("b", 22)
	if seen, shown, err := meet(t, a, b); err != nil || seen != 22 || shown != 21 {
		t.Errorf("after the files were replaced a has seen %d, and b %d: %v", seen, shown, err)
	}
}

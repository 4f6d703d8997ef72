package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/gateway"

	"github.com/coder/websocket"
)

// certificate makes a self-signed one for 127.0.0.1 in two files.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public})
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(block)
	if err := os.WriteFile(cert, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		t.Fatal(err)
	}
	return cert, key, pool
}

// With TLS of its own: HTTP and sockets work, browsers are told to stay, pages that came
// by http are refused, and the end comes in time.
func TestServerWithTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.TLS.CertFile, c.TLS.KeyFile = cert, key })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: patience}
	defer client.CloseIdleConnections()
	get := func(origin string) *http.Response {
		request, _ := http.NewRequest("GET", "https://"+r.addr+"/api/sessions", nil)
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer
	}
	for origin, status := range map[string]int{"": 200, "https://" + r.addr: 200, "http://" + r.addr: 403} {
		answer := get(origin)
		if answer.StatusCode != status {
			t.Errorf("origin %q: %s, want %d", origin, answer.Status, status)
		}
		if h := answer.Header.Get("Strict-Transport-Security"); h != "max-age=31536000" {
			t.Errorf("Strict-Transport-Security: %q", h)
		}
	}
	ws, _, err := websocket.Dial(t.Context(), "wss://"+r.addr+"/ws", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if err := ws.Write(t.Context(), websocket.MessageText, []byte(`{"type":"hello","id":"1","data":{"proto":1}}`)); err != nil {
		t.Fatal(err)
	}
	if _, b, err := ws.Read(t.Context()); err != nil || !strings.Contains(string(b), `"ok"`) {
		t.Errorf("%s: %v", b, err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// A certificate that cannot be read is said before anything listens.
func TestTLSWithoutItsFiles(t *testing.T) {
	cfg := gateway.DefaultConfig()
	cfg.TLS.CertFile = "cert.pem"
	if wrong := cfg.Validate(); len(wrong) != 1 || wrong[0].Key != "tls.cert_file" {
		t.Errorf("a certificate without a key: %v", wrong)
	}
}

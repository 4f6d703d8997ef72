package gateway_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/gateway"
)

// authority is a certificate authority that speaks as much of RFC 8555 as one name
// needs. It connects to the server that asks, as a real one does.
type authority struct {
	*httptest.Server
	t    *testing.T
	file string // its certificate
	pool *x509.CertPool
	root *x509.Certificate
	key  *ecdsa.PrivateKey

	mu       sync.Mutex
	refuses  bool
	server   string // where all names lead to
	nonces   map[string]bool
	thumb    string // of the account's key
	accounts int
	hosts    []string // one for each order
	proven   map[string]bool
	issued   map[string][]byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, nonces: map[string]bool{}, proven: map[string]bool{}, issued: map[string][]byte{}, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	a.root = &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.root, a.root, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.root)
	a.Server = httptest.NewTLSServer(http.HandlerFunc(a.answer))
	t.Cleanup(a.Close)
	a.file = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	if err := os.WriteFile(a.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

var encoding = base64.RawURLEncoding

// read returns what a request says, and who says it. A nonce is good once.
func (a *authority) read(r *http.Request) (payload []byte, thumb string, ok bool) {
	var sent struct{ Protected, Payload string }
	var head struct {
		Nonce, URL string
		JWK        struct{ Crv, Kty, X, Y string }
	}
	if json.NewDecoder(r.Body).Decode(&sent) != nil {
		return nil, "", false
	}
	protected, _ := encoding.DecodeString(sent.Protected)
	payload, _ = encoding.DecodeString(sent.Payload)
	if json.Unmarshal(protected, &head) != nil || !a.nonces[head.Nonce] || head.URL != a.URL+r.URL.Path {
		return nil, "", false
	}
	delete(a.nonces, head.Nonce)
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":%q,"kty":%q,"x":%q,"y":%q}`, head.JWK.Crv, head.JWK.Kty, head.JWK.X, head.JWK.Y))
	return payload, encoding.EncodeToString(sum[:]), true
}

func (a *authority) answer(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	nonce := rand.Text()
	a.nonces[nonce] = true
	w.Header().Set("Replay-Nonce", nonce)
	say := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	var payload []byte
	var thumb string
	if r.Method == http.MethodPost {
		var ok bool
		if payload, thumb, ok = a.read(r); !ok {
			a.t.Errorf("%s: a request that an authority would not take", r.URL)
			say(400, map[string]string{"type": "urn:ietf:params:acme:error:malformed"})
			return
		}
	}
	_, host, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	order := map[string]any{"status": "pending", "authorizations": []string{a.URL + "/authorization/" + host}, "finalize": a.URL + "/finalize/" + host}
	switch step, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); step {
	case "directory":
		say(200, map[string]any{
			"newNonce": a.URL + "/nonce", "newAccount": a.URL + "/account", "newOrder": a.URL + "/order",
			"meta": map[string]string{"termsOfService": a.URL + "/terms"},
		})
	case "nonce":
	case "account":
		if !bytes.Contains(payload, []byte(`"termsOfServiceAgreed":true`)) || !bytes.Contains(payload, []byte(`mailto:admin@example.org`)) {
			a.t.Errorf("the account: %s", payload)
		}
		a.accounts++
		a.thumb = thumb
		w.Header().Set("Location", a.URL+"/account/1")
		say(201, map[string]string{"status": "valid"})
	case "order":
		if host != "" { // its state
			order["status"] = "ready"
			say(200, order)
			return
		}
		var ask struct{ Identifiers []struct{ Value string } }
		_ = json.Unmarshal(payload, &ask)
		host = ask.Identifiers[0].Value
		a.hosts = append(a.hosts, host)
		if a.refuses {
			say(403, map[string]string{"type": "urn:ietf:params:acme:error:rejectedIdentifier", "detail": "we do not like this name"})
			return
		}
		order["authorizations"], order["finalize"] = []string{a.URL + "/authorization/" + host}, a.URL+"/finalize/"+host
		w.Header().Set("Location", a.URL+"/order/"+host)
		say(201, order)
	case "authorization":
		status := "pending"
		if a.proven[host] {
			status = "valid"
		}
		challenges := []map[string]string{{"type": "http-01", "url": a.URL + "/none", "token": "t"}, {"type": "tls-alpn-01", "url": a.URL + "/challenge/" + host, "token": "token-of-" + host}}
		say(200, map[string]any{"status": status, "identifier": map[string]string{"type": "dns", "value": host}, "challenges": challenges})
	case "challenge":
		a.proven[host] = a.proves(host)
		say(200, map[string]string{"type": "tls-alpn-01", "url": a.URL + "/challenge/" + host, "token": "token-of-" + host, "status": "processing"})
	case "finalize":
		if !a.proven[host] {
			say(403, map[string]string{"type": "urn:ietf:params:acme:error:unauthorized"})
			return
		}
		a.issue(host, payload)
		order["status"], order["certificate"] = "valid", a.URL+"/certificate/"+host
		w.Header().Set("Location", a.URL+"/order/"+host)
		say(200, order)
	case "certificate":
		_, _ = w.Write(a.issued[host])
	default:
		a.t.Errorf("asked for %s", r.URL)
	}
}

// proves connects as RFC 8737 says and looks at the certificate that it is shown.
func (a *authority) proves(host string) bool {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", a.server,
		&tls.Config{ServerName: host, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true})
	if err != nil {
		a.t.Errorf("the challenge: %v", err)
		return false
	}
	defer conn.Close()
	state := conn.ConnectionState()
	leaf := state.PeerCertificates[0]
	sum := sha256.Sum256([]byte("token-of-" + host + "." + a.thumb))
	want, _ := asn1.Marshal(sum[:])
	for _, e := range leaf.Extensions {
		if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) && e.Critical && bytes.Equal(e.Value, want) &&
			slices.Equal(leaf.DNSNames, []string{host}) && state.NegotiatedProtocol == "acme-tls/1" {
			return true
		}
	}
	a.t.Errorf("the challenge's certificate is for %v, by %q", leaf.DNSNames, state.NegotiatedProtocol)
	return false
}

func (a *authority) issue(host string, payload []byte) {
	var ask struct{ CSR string }
	_ = json.Unmarshal(payload, &ask)
	der, _ := encoding.DecodeString(ask.CSR)
	request, err := x509.ParseCertificateRequest(der)
	if err != nil || request.CheckSignature() != nil || !slices.Equal(request.DNSNames, []string{host}) {
		a.t.Errorf("the request: %v, %v", request, err)
		return
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(a.hosts) + 1)), DNSNames: request.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(80 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if der, err = x509.CreateCertificate(rand.Reader, leaf, a.root, request.PublicKey, a.key); err != nil {
		a.t.Error(err)
	}
	a.issued[host] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// orders is how many certificates were asked for.
func (a *authority) orders() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.hosts)
}

// startACME starts a server whose certificates are the authority's.
func startACME(t *testing.T, a *authority, cache string) *rig {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.TLS.ACMEHosts, c.TLS.ACMETerms, c.TLS.ACMEEmail = []string{"chat.example.org"}, true, "admin@example.org"
		c.TLS.ACMEDirectory, c.TLS.ACMECAFile, c.TLS.ACMECache = a.URL+"/directory", a.file, cache
	})
	a.mu.Lock()
	a.server = r.addr
	a.mu.Unlock()
	return r
}

// visit asks the server for its sessions under a name; the error is the handshake's.
func (a *authority) visit(t *testing.T, r *rig, host string) error {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: a.pool}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, r.addr)
		},
	}
	answer, err := (&http.Client{Transport: transport, Timeout: patience}).Get("https://" + host + "/api/sessions")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 || answer.TLS.NegotiatedProtocol == "acme-tls/1" {
		t.Errorf("%s: %s by %q", host, answer.Status, answer.TLS.NegotiatedProtocol)
	}
	return nil
}

// The first client's name is proven and its certificate issued, once; other names get none;
// after a restart the authority is not needed.
func TestACME(t *testing.T) {
	a, cache := newAuthority(t), filepath.Join(t.TempDir(), "acme")
	r := startACME(t, a, cache)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if err := a.visit(t, r, "chat.example.org"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, host := range []string{"other.example.org", "example.org", "127.0.0.1"} {
		if err := a.visit(t, r, host); err == nil {
			t.Errorf("%s has a certificate", host)
		}
	}
	if a.orders() != 1 || a.accounts != 1 {
		t.Errorf("%d orders of %d accounts", a.orders(), a.accounts)
	}
	if log := r.log.String(); !strings.Contains(log, "the certificate is there") || strings.Contains(log, "level=ERROR") {
		t.Error(log)
	}
	err := filepath.WalkDir(cache, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	a.Close()
	if err := a.visit(t, startACME(t, a, cache), "chat.example.org"); err != nil {
		t.Errorf("from the cache: %v", err)
	}
}

// An authority that refuses is asked once and said once; the server goes on.
func TestACMERefused(t *testing.T) {
	a := newAuthority(t)
	a.refuses = true
	r := startACME(t, a, filepath.Join(t.TempDir(), "acme"))
	for range 5 {
		if err := a.visit(t, r, "chat.example.org"); err == nil {
			t.Error("there is a certificate")
		}
	}
	log := r.log.String()
	if a.orders() != 1 || strings.Count(log, "no certificate by ACME") != 1 || !strings.Contains(log, "we do not like this name") {
		t.Errorf("%d orders; %s", a.orders(), log)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// What cannot work is said by its key before anything listens.
func TestACMESettings(t *testing.T) {
	good := gateway.TLS{ACMEHosts: []string{"chat.example.org", "xn--bcher-kva.example"}, ACMETerms: true}
	for name, x := range map[string]struct {
		change func(*gateway.TLS)
		key    string // "" = it is well
	}{
		"good":             {func(*gateway.TLS) {}, ""},
		"all of it":        {func(c *gateway.TLS) { c.ACMEEmail, c.ACMEDirectory = "a@b.example", "https://ca.example/acme" }, ""},
		"no terms":         {func(c *gateway.TLS) { c.ACMETerms = false }, "tls.acme_accept_terms"},
		"files, too":       {func(c *gateway.TLS) { c.CertFile, c.KeyFile = "a", "b" }, "tls.acme_hosts"},
		"an address":       {func(c *gateway.TLS) { c.ACMEHosts = []string{"192.0.2.1"} }, "tls.acme_hosts"},
		"an IPv6 address":  {func(c *gateway.TLS) { c.ACMEHosts = []string{"2001:db8::1"} }, "tls.acme_hosts"},
		"all names":        {func(c *gateway.TLS) { c.ACMEHosts = []string{"*.example.org"} }, "tls.acme_hosts"},
		"a port":           {func(c *gateway.TLS) { c.ACMEHosts = []string{"example.org:443"} }, "tls.acme_hosts"},
		"one label":        {func(c *gateway.TLS) { c.ACMEHosts = []string{"localhost"} }, "tls.acme_hosts"},
		"capitals":         {func(c *gateway.TLS) { c.ACMEHosts = []string{"Chat.example"} }, "tls.acme_hosts"},
		"a path":           {func(c *gateway.TLS) { c.ACMEHosts = []string{"../a.example"} }, "tls.acme_hosts"},
		"too many":         {func(c *gateway.TLS) { c.ACMEHosts = slices.Repeat([]string{"a.example"}, 101) }, "tls.acme_hosts"},
		"no encryption":    {func(c *gateway.TLS) { c.ACMEDirectory = "http://ca.example/acme" }, "tls.acme_directory"},
		"no email address": {func(c *gateway.TLS) { c.ACMEEmail = "me" }, "tls.acme_email"},
	} {
		cfg := gateway.DefaultConfig()
		cfg.TLS = good
		x.change(&cfg.TLS)
		wrong := cfg.Validate()
		if (x.key == "") != (len(wrong) == 0) || len(wrong) > 0 && (len(wrong) != 1 || wrong[0].Key != x.key) {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway/service"

	"github.com/golang-jwt/jwt/v5"
)

type object = map[string]any

// signers are keys of each kind; they are made once, because RSA takes long.
var signers = func() (s struct {
	rsa, weak *rsa.PrivateKey
	ec        *ecdsa.PrivateKey
	ed        ed25519.PrivateKey
}) {
	var errs [4]error
	s.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	s.weak, errs[1] = rsa.GenerateKey(rand.Reader, 1024)
	s.ec, errs[2] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, s.ed, errs[3] = ed25519.GenerateKey(rand.Reader)
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
	return s
}()

func number(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwkOf is the public key of a signer, as a set writes it.
func jwkOf(t *testing.T, kid string, key crypto.Signer, more object) object {
	o := object{"kid": kid, "use": "sig"}
	switch k := key.Public().(type) {
	case *rsa.PublicKey:
		o["kty"], o["n"], o["e"] = "RSA", number(k.N.Bytes()), number(big.NewInt(int64(k.E)).Bytes())
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		o["kty"], o["crv"], o["x"], o["y"] = "EC", "P-256", number(point[1:33]), number(point[33:])
	case ed25519.PublicKey:
		o["kty"], o["crv"], o["x"] = "OKP", "Ed25519", number(k)
	}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func setOf(t *testing.T, keys ...object) []byte {
	b, err := json.Marshal(object{"keys": keys})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func allKeys(t *testing.T) []byte {
	return setOf(t,
		jwkOf(t, "rsa", signers.rsa, nil), jwkOf(t, "ec", signers.ec, object{"x5u": "http://127.0.0.1:1/never"}), jwkOf(t, "ed", signers.ed, nil),
		jwkOf(t, "weak", signers.weak, nil), jwkOf(t, "ps", signers.rsa, object{"alg": "PS256"}), jwkOf(t, "enc", signers.rsa, object{"use": "enc"}),
		object{"kty": "oct", "kid": "oct", "k": number([]byte(strings.Repeat("k", 32)))}, object{"kty": "new", "kid": "new"},
	)
}

// token signs claims; header changes the header.
func token(t *testing.T, method jwt.SigningMethod, key any, claims, header object) string {
	t.Helper()
	all := jwt.MapClaims{"sub": "ann", "tenant": "acme", "aud": "parley", "iss": "https://login.example", "exp": time.Now().Add(time.Hour).Unix()}
	for k, v := range claims {
		if all[k] = v; v == nil {
			delete(all, k)
		}
	}
	tok := jwt.NewWithClaims(method, all)
	for k, v := range header {
		tok.Header[k] = v
	}
	text, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func openJWT(t *testing.T, change func(*SignIn)) *JWT {
	t.Helper()
	c := DefaultSignIn()
	c.Mode, c.Audience, c.Issuer = ModeJWT, "parley", "https://login.example"
	c.KeySet = filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(c.KeySet, allKeys(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&c)
	}
	if wrong := c.Validate(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	j, err := NewJWT(c, fixed(map[string]string{"env:SECRET": strings.Repeat("s", 32)}), quiet())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Each kind of key signs; nothing that only looks signed is taken.
func TestTokens(t *testing.T) {
	j := openJWT(t, nil)
	kid := func(id string) object { return object{"kid": id} }
	public, err := x509.MarshalPKIXPublicKey(signers.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	good := token(t, jwt.SigningMethodRS256, signers.rsa, nil, kid("rsa"))
	for _, row := range []struct {
		name, token string
		code        conversation.Code
	}{
		{"RS256", good, ""},
		{"PS256", token(t, jwt.SigningMethodPS256, signers.rsa, nil, kid("rsa")), ""},
		{"ES256", token(t, jwt.SigningMethodES256, signers.ec, nil, kid("ec")), ""},
		{"EdDSA", token(t, jwt.SigningMethodEdDSA, signers.ed, nil, kid("ed")), ""},

		{"alg none", token(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil, kid("rsa")), conversation.Unauthenticated},
		{"alg none without a signature", strings.Join(strings.Split(good, ".")[:2], ".") + ".", conversation.Unauthenticated},
		{"HS256 with the public key as PEM", token(t, jwt.SigningMethodHS256, asPEM, nil, kid("rsa")), conversation.Unauthenticated},
		{"HS256 with the public key as DER", token(t, jwt.SigningMethodHS256, public, nil, kid("rsa")), conversation.Unauthenticated},
		{"HS256 with the modulus", token(t, jwt.SigningMethodHS256, signers.rsa.N.Bytes(), nil, kid("rsa")), conversation.Unauthenticated},
		{"HS256 with an empty key", token(t, jwt.SigningMethodHS256, []byte{}, nil, kid("rsa")), conversation.Unauthenticated},
		{"HS256 with a secret of the set", token(t, jwt.SigningMethodHS256, []byte(strings.Repeat("k", 32)), nil, kid("oct")), conversation.Unauthenticated},
		{"another key's kid", token(t, jwt.SigningMethodRS256, signers.rsa, nil, kid("ec")), conversation.Unauthenticated},
		{"an unknown kid", token(t, jwt.SigningMethodRS256, signers.rsa, nil, kid("what")), conversation.Unauthenticated},
		{"a kid that is a path", token(t, jwt.SigningMethodRS256, signers.rsa, nil, kid("../../etc/passwd")), conversation.Unauthenticated},
		{"a kid that is a number", token(t, jwt.SigningMethodRS256, signers.rsa, nil, object{"kid": 1}), conversation.Unauthenticated},
		{"no kid, of several keys", token(t, jwt.SigningMethodRS256, signers.rsa, nil, nil), conversation.Unauthenticated},
		{"RS256 by a key for PS256", token(t, jwt.SigningMethodRS256, signers.rsa, nil, kid("ps")), conversation.Unauthenticated},
		{"a weak key", token(t, jwt.SigningMethodRS256, signers.weak, nil, kid("weak")), conversation.Unauthenticated},
		{"a key to encrypt with", token(t, jwt.SigningMethodRS256, signers.rsa, nil, kid("enc")), conversation.Unauthenticated},
		{"a key that it brings itself", token(t, jwt.SigningMethodEdDSA, func() ed25519.PrivateKey { _, k, _ := ed25519.GenerateKey(rand.Reader); return k }(), nil, object{"jwk": jwkOf(t, "ed", signers.ed, nil), "kid": "ed"}), conversation.Unauthenticated},
		{"crit", token(t, jwt.SigningMethodRS256, signers.rsa, nil, object{"kid": "rsa", "crit": []string{"exp"}}), conversation.Unauthenticated},
		{"another signature", good[:len(good)-8] + "AAAAAAAA", conversation.Unauthenticated},
		{"no token", "", conversation.Unauthenticated},
		{"nonsense", "a.b.c", conversation.Unauthenticated},
		{"a long one", strings.Repeat("a", maxToken+1), conversation.Unauthenticated},
	} {
		who, err := j.Authenticate(t.Context(), service.Credential{Token: row.token})
		if code(err) != row.code {
			t.Errorf("%s: %+v, %v", row.name, who, err)
		}
	}
}

func TestClaims(t *testing.T) {
	j := openJWT(t, func(c *SignIn) { c.KeySet, c.Secret = "", "env:SECRET" })
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	for _, row := range []struct {
		name   string
		claims object
		want   string // user, tenant, scopes, name; or the code
	}{
		{"what it must have", nil, "ann acme [chat read:tools] "},
		{"all", object{"scope": "openid chat admin", "name": "Ann\x00 \u202eB"}, "ann acme [chat admin] Ann B"},
		{"scope as a list", object{"scope": []string{"runtime"}}, "ann acme [runtime] "},
		{"no scope of ours", object{"scope": "openid"}, "ann acme [] "},
		{"of several audiences", object{"aud": []string{"x", "parley"}}, "ann acme [chat read:tools] "},
		{"two seconds ago", object{"exp": ago(2 * time.Second)}, "ann acme [chat read:tools] "},
		{"expired", object{"exp": ago(7 * time.Second)}, "token_expired"},
		{"expired, for others", object{"exp": ago(2 * time.Minute), "aud": "x"}, "unauthenticated"},
		{"no end", object{"exp": nil}, "unauthenticated"},
		{"an end that is a text", object{"exp": "tomorrow"}, "unauthenticated"},
		{"not yet", object{"nbf": ago(-5 * time.Minute)}, "unauthenticated"},
		{"for others", object{"aud": "x"}, "unauthenticated"},
		{"for nobody", object{"aud": nil}, "unauthenticated"},
		{"of another issuer", object{"iss": "https://evil.example"}, "unauthenticated"},
		{"of no issuer", object{"iss": nil}, "unauthenticated"},
		{"no sub", object{"sub": nil}, "unauthenticated"},
		{"an empty sub", object{"sub": ""}, "unauthenticated"},
		{"a sub that is a number", object{"sub": 1}, "unauthenticated"},
		{"a sub with NUL", object{"sub": "ann\x00"}, "unauthenticated"},
		{"a long sub", object{"sub": strings.Repeat("a", MaxID+1)}, "unauthenticated"},
		{"no tenant", object{"tenant": nil}, "unauthenticated"},
		{"a tenant with NUL", object{"tenant": "a\x00b"}, "unauthenticated"},
		{"a tenant that is a list", object{"tenant": []string{"acme"}}, "unauthenticated"},
		{"a scope that is a number", object{"scope": 1}, "unauthenticated"},
	} {
		text := token(t, jwt.SigningMethodHS256, []byte(strings.Repeat("s", 32)), row.claims, nil)
		who, err := j.Authenticate(t.Context(), service.Credential{Token: text})
		got := string(code(err))
		if err == nil {
			got = fmt.Sprintf("%s %s %v %s", who.User, who.Tenant, who.Scopes, who.Name)
			if who.Expires.IsZero() || who.Credential == "" {
				t.Errorf("%s: %+v", row.name, who)
			}
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s (%v)", row.name, got, row.want, err)
		}
	}
	other := token(t, jwt.SigningMethodHS512, []byte(strings.Repeat("s", 32)), nil, nil)
	if _, err := j.Authenticate(t.Context(), service.Credential{Token: other}); code(err) != conversation.Unauthenticated {
		t.Errorf("HS512: %v", err)
	}
	if _, err := NewJWT(j.c, fixed(map[string]string{"env:SECRET": "short"}), quiet()); err == nil || strings.Contains(err.Error(), "short\"") {
		t.Errorf("a short secret: %v", err)
	}
}

// Keys behind an address: read once, again when a token names an unknown one, and then
// once a minute at the most.
func TestKeyURL(t *testing.T) {
	var asked atomic.Int32
	var body atomic.Pointer[[]byte]
	one := setOf(t, jwkOf(t, "rsa", signers.rsa, nil))
	body.Store(&one)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(*body.Load())
	}))
	defer server.Close()
	j := openJWT(t, func(c *SignIn) { c.KeySet, c.KeyURL, c.Private = "", server.URL, true })
	now := time.Now()
	j.keys.now = func() time.Time { return now }
	is := func(what, kid string, want conversation.Code, times int32) {
		t.Helper()
		key := map[string]any{"ed": signers.ed}[kid]
		var method jwt.SigningMethod = jwt.SigningMethodEdDSA
		if key == nil {
			key, method = signers.rsa, jwt.SigningMethodRS256
		}
		header := object{"kid": kid}
		if kid == "" {
			header = nil
		}
		_, err := j.Authenticate(t.Context(), service.Credential{Token: token(t, method, key, nil, header)})
		if code(err) != want || asked.Load() != times {
			t.Errorf("%s: %v, asked %d times, want %d", what, err, asked.Load(), times)
		}
	}
	is("known", "rsa", "", 1)
	is("no kid, of one key", "", "", 1)
	for range 100 {
		is("unknown, too early", "ed", conversation.Unauthenticated, 1)
	}
	two := setOf(t, jwkOf(t, "rsa", signers.rsa, nil), jwkOf(t, "ed", signers.ed, nil))
	body.Store(&two)
	now = now.Add(time.Minute)
	is("unknown, read again", "ed", "", 2)
	is("unknown, too early again", "what", conversation.Unauthenticated, 2)
	broken := []byte(`{"keys":[]}`)
	body.Store(&broken)
	now = now.Add(time.Minute)
	is("unknown, and the set is broken", "what", conversation.Unauthenticated, 3)
	is("those from before stay", "ed", "", 3)
}

// What an address of keys may not do.
func TestKeyURLIsBounded(t *testing.T) {
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(allKeys(t)) }))
	defer evil.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, evil.URL, http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/keys", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/large":
			_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat(" ", keySetBytes) + `]}`))
		case "/gone":
			http.Error(w, "no", http.StatusNotFound)
		case "/twice":
			_, _ = w.Write(setOf(t, jwkOf(t, "a", signers.rsa, nil), jwkOf(t, "a", signers.ed, nil)))
		default:
			_, _ = w.Write(allKeys(t))
		}
	}))
	defer server.Close()
	for _, row := range []struct {
		path    string
		private bool
		says    string
	}{
		{"/keys", true, ""}, {"/here", true, ""}, {"/keys", false, "private network"}, {"/elsewhere", true, "another address"},
		{"/round", true, "another address"}, {"/large", true, "more than"}, {"/gone", true, "status 404"}, {"/twice", true, "two of them"},
	} {
		c := DefaultSignIn()
		c.KeyURL, c.Private = server.URL+row.path, row.private
		err := newKeySet(c, quiet()).load(t.Context())
		if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%+v: %v", row, err)
		}
	}
	for address, private := range map[string]bool{
		"127.0.0.1:443": true, "10.1.2.3:443": true, "192.168.1.1:443": true, "172.16.0.1:443": true, "169.254.169.254:80": true, "100.64.0.1:443": true,
		"0.0.0.0:443": true, "[::1]:443": true, "[fd00::1]:443": true, "[fe80::1]:443": true, "[::ffff:10.0.0.1]:443": true, "224.0.0.1:443": true,
		"203.0.113.7:443": false, "[2001:db8::1]:443": false,
	} {
		if err := publicOnly(address); (err != nil) != private {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// What makes no sense together is refused before anything is read.
func TestConfigValidate(t *testing.T) {
	for _, row := range []struct {
		change func(*SignIn)
		key    string // "" = fine
	}{
		{func(*SignIn) {}, ""},
		{func(c *SignIn) { c.Mode = ModeKeys }, ""},
		{func(c *SignIn) { c.Mode = ModeJWT }, "auth.mode"},
		{func(c *SignIn) { c.Mode, c.Secret, c.KeySet = ModeJWT, "env:X", "f" }, "auth.mode"},
		{func(c *SignIn) { c.Mode, c.Secret = ModeJWT, "env:X" }, ""},
		{func(c *SignIn) { c.Mode, c.KeySet = ModeJWT, "f" }, ""},
		{func(c *SignIn) { c.Mode, c.KeyURL, c.Audience = ModeJWT, "https://login.example/keys", "p" }, ""},
		{func(c *SignIn) { c.KeyURL = "http://login.example/keys" }, "auth.jwks_url"},
		{func(c *SignIn) { c.KeyURL = "file:///etc/passwd" }, "auth.jwks_url"},
		{func(c *SignIn) { c.KeyURL = "https://u:p@login.example" }, "auth.jwks_url"},
		{func(c *SignIn) { c.Mode = ModeProxy }, "auth.proxy_header"},
		{func(c *SignIn) { c.UserHeader = "Authorization" }, "auth.proxy_header"},
		{func(c *SignIn) { c.UserHeader = "X User" }, "auth.proxy_header"},
		{func(c *SignIn) { c.Scopes = []string{"root"} }, "auth.scopes"},
		{func(c *SignIn) { c.Tenant = "a\x00" }, "auth.tenant"},
		{func(c *SignIn) { c.Leeway = time.Hour }, "auth.leeway"},
	} {
		c := DefaultSignIn()
		row.change(&c)
		wrong := c.Validate()
		if row.key == "" && len(wrong) > 0 || row.key != "" && (len(wrong) != 1 || wrong[0].Key != row.key) {
			t.Errorf("%+v: %v, want %q", c, wrong, row.key)
		}
	}
}

package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/MicahParks/jwkset"
)

// Bounds of reading public keys.
const (
	keySetBytes  = 1 << 20
	keySetTime   = 10 * time.Second
	keySetKeys   = 1_000
	keySetPause  = time.Minute // between two attempts that a token asks for by an unknown kid
	minRSABits   = 2048
	keyRedirects = 3
)

// keySet holds the public keys of somebody's sign-in, from a file or an address.
//
// The library that reads single keys could fetch a set as well. That is done here, because
// it would hold back a caller until the next attempt is allowed, and try all keys for a
// token that names none.
type keySet struct {
	c      SignIn
	log    *slog.Logger
	client *http.Client
	now    func() time.Time

	mu      sync.Mutex
	byKID   map[string]publicKey
	read    time.Time // when byKID was read
	tried   time.Time // when reading was tried
	reading bool
}

// publicKey is a key, and the algorithms that tokens may be signed with by it.
type publicKey struct {
	key        any
	algorithms string // with spaces around each
}

func newKeySet(c SignIn, log *slog.Logger) *keySet {
	s := &keySet{c: c, log: log, now: time.Now}
	dialer := &net.Dialer{Timeout: keySetTime}
	if !c.Private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return publicOnly(address) }
	}
	s.client = &http.Client{
		Timeout: keySetTime,
		Transport: &http.Transport{ // without a proxy of the environment: it would connect where we must not
			DialContext: dialer.DialContext, TLSHandshakeTimeout: keySetTime, ResponseHeaderTimeout: keySetTime,
			MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			first := via[0].URL
			if len(via) > keyRedirects || r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
				return errors.New("it leads to another address, which is not followed")
			}
			return nil
		},
	}
	return s
}

// publicOnly refuses to connect to an address that only this machine or its network has.
// The address is the one that is really connected to, behind all names.
func publicOnly(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	shared := netip.MustParsePrefix("100.64.0.0/10")
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || shared.Contains(ip) {
		return fmt.Errorf("%s is an address of a private network; auth.jwks_private = true allows it", ip)
	}
	return nil
}

// open reads the keys for the first time. A file must be there; an address may come later.
func (s *keySet) open() error {
	s.mu.Lock()
	s.tried = s.now()
	s.mu.Unlock()
	err := s.load(context.Background())
	if err != nil && s.c.KeyURL != "" {
		s.log.Error("the keys of sign-in could not be read; nobody can sign in until they are", "error", err)
		return nil
	}
	return err
}

// load reads the keys. With an error those from before stay.
func (s *keySet) load(ctx context.Context) error {
	text, err := s.fetch(ctx)
	if err != nil {
		return err
	}
	keys, err := parseKeySet(text)
	if err != nil {
		return fmt.Errorf("the keys of sign-in: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byKID, s.read = keys, s.now()
	return nil
}

func (s *keySet) fetch(ctx context.Context) ([]byte, error) {
	if s.c.KeyURL == "" {
		f, err := os.Open(s.c.KeySet)
		if err != nil {
			return nil, fmt.Errorf("auth.jwks_file: %w", err)
		}
		defer func() { _ = f.Close() }()
		return readBounded(f)
	}
	ctx, cancel := context.WithTimeout(ctx, keySetTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.c.KeyURL, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("auth.jwks_url: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("auth.jwks_url answers with status %d", response.StatusCode)
	}
	return readBounded(response.Body)
}

func readBounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, keySetBytes+1))
	if err == nil && len(text) > keySetBytes {
		err = fmt.Errorf("the keys of sign-in have more than %d bytes", keySetBytes)
	}
	return text, err
}

// parseKeySet reads a set of keys. Those that are of no use here are left out.
func parseKeySet(text []byte) (map[string]publicKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("they are no set of keys: %w", err)
	}
	if len(set.Keys) > keySetKeys {
		return nil, fmt.Errorf("there are more than %d", keySetKeys)
	}
	keys := map[string]publicKey{}
	var last error
	for _, raw := range set.Keys {
		kid, key, err := parseKey(raw)
		if err != nil {
			last = err
			continue
		}
		if _, twice := keys[kid]; twice {
			return nil, fmt.Errorf("two of them have the kid %.40q", kid)
		}
		keys[kid] = key
	}
	if len(keys) == 0 {
		return nil, errors.Join(errors.New("none of them can be used"), last)
	}
	return keys, nil
}

func parseKey(raw json.RawMessage) (kid string, key publicKey, err error) {
	var head jwkset.JWKMarshal
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", key, err
	}
	if head.USE != "" && head.USE != jwkset.UseSig {
		return "", key, errors.New("it is not for signatures")
	}
	// The numbers alone count. The library would fetch the address of a certificate (x5u).
	jwk, err := jwkset.NewJWKFromMarshal(jwkset.JWKMarshal{
		KTY: head.KTY, CRV: head.CRV, N: head.N, E: head.E, X: head.X, Y: head.Y,
	}, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return "", key, err
	}
	switch k := jwk.Key().(type) {
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSABits {
			return "", key, fmt.Errorf("an RSA key has less than %d bits", minRSABits)
		}
		key = publicKey{k, " RS256 RS384 RS512 PS256 PS384 PS512 "}
	case *ecdsa.PublicKey:
		algorithm := map[int]string{256: " ES256 ", 384: " ES384 ", 521: " ES512 "}[k.Curve.Params().BitSize]
		key = publicKey{k, algorithm}
	case ed25519.PublicKey:
		key = publicKey{k, " EdDSA "}
	default:
		return "", key, fmt.Errorf("a key of type %.20q is no public key for signatures", head.KTY)
	}
	if alg := head.ALG.String(); alg != "" {
		if !strings.Contains(key.algorithms, " "+alg+" ") {
			return "", key, fmt.Errorf("alg %.20q does not go with kty %.20q", alg, head.KTY)
		}
		key.algorithms = " " + alg + " "
	}
	return head.KID, key, nil
}

// key is the key of a token. An unknown kid has the keys read again, once a minute at the
// most; a token without one is for a set of one key.
func (s *keySet) key(ctx context.Context, kid, algorithm string) (any, error) {
	found, ok := s.find(kid)
	if !ok && s.mayTry() {
		if err := s.retry(ctx); err != nil {
			return nil, err
		}
		found, ok = s.find(kid)
	}
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no key %.40q", kid)
	case !strings.Contains(found.algorithms, " "+algorithm+" "):
		return nil, fmt.Errorf("the key %.40q is not for %s", kid, algorithm)
	}
	if s.old() && s.mayTry() {
		go func() { _ = s.retry(context.Background()) }() // ends within keySetTime
	}
	return found.key, nil
}

func (s *keySet) find(kid string) (publicKey, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kid == "" && len(s.byKID) == 1 {
		for _, only := range s.byKID {
			return only, true
		}
	}
	found, ok := s.byKID[kid]
	return found, ok
}

// old is true for keys that are to be read again.
func (s *keySet) old() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c.KeyURL != "" && s.now().Sub(s.read) > s.c.Refresh
}

// mayTry takes the permission to read the keys: one reader, once a minute.
func (s *keySet) mayTry() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading || s.now().Sub(s.tried) < keySetPause {
		return false
	}
	s.reading, s.tried = true, s.now()
	return true
}

// retry reads the keys for who got the permission.
func (s *keySet) retry(ctx context.Context) error {
	err := s.load(context.WithoutCancel(ctx)) // one impatient client must not spoil it for all
	s.mu.Lock()
	s.reading = false
	s.mu.Unlock()
	if err != nil {
		s.log.Error("the keys of sign-in could not be read again; those from before stay", "error", err)
	}
	return err
}

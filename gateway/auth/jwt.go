package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/service"

	"github.com/golang-jwt/jwt/v5"
)

var _ service.Authenticator = (*JWT)(nil)

// JWT is auth.mode = "jwt".
type JWT struct {
	c      SignIn
	parser *jwt.Parser
	secret []byte  // of HS256; nil = keys has public keys
	keys   *keySet // nil = secret
}

// maxToken bounds a token: what is longer is not looked at.
const maxToken = 16 << 10

// MinSecret is the least length of a shared secret (RFC 7518 §3.2).
const MinSecret = 32

// publicAlgorithms are those that are signed with a private key. A token with another one,
// "none" and "HS256" above all, is refused before a key is looked for.
var publicAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// NewJWT prepares the mode; resolve reads what a reference stands for.
func NewJWT(c SignIn, resolve func(reference string) (string, error), log *slog.Logger) (*JWT, error) {
	j := &JWT{c: c}
	options := []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithLeeway(c.Leeway), jwt.WithStrictDecoding()}
	if c.Issuer != "" {
		options = append(options, jwt.WithIssuer(c.Issuer))
	}
	if c.Audience != "" {
		options = append(options, jwt.WithAudience(c.Audience))
	}
	if c.Secret != "" {
		secret, err := resolve(c.Secret)
		if err != nil {
			return nil, fmt.Errorf("auth.hs256_secret: %w", err)
		}
		if len(secret) < MinSecret {
			return nil, fmt.Errorf("auth.hs256_secret must have at least %d bytes, or it could be found by trying", MinSecret)
		}
		j.secret = []byte(secret)
		j.parser = jwt.NewParser(append(options, jwt.WithValidMethods([]string{"HS256"}))...)
		return j, nil
	}
	j.parser = jwt.NewParser(append(options, jwt.WithValidMethods(publicAlgorithms))...)
	j.keys = newKeySet(c, log)
	return j, j.keys.open()
}

// Mode implements service.Authenticator.
func (*JWT) Mode() string { return ModeJWT }

// Reload reads the keys anew.
func (j *JWT) Reload() error {
	if j.keys == nil {
		return nil
	}
	return j.keys.load(context.Background())
}

// tokenClaims are the claims of a token that count here.
type tokenClaims struct {
	jwt.RegisteredClaims
	Tenant string     `json:"tenant"`
	Name   string     `json:"name"`
	Scope  *scopeList `json:"scope"`
}

// scopeList is a claim that is a text with spaces, or a list.
type scopeList []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scopeList) UnmarshalJSON(b []byte) error {
	var text string
	var list []string
	if json.Unmarshal(b, &text) != nil {
		if err := json.Unmarshal(b, &list); err != nil {
			return errors.New("scope must be a text or a list of texts")
		}
		text = strings.Join(list, " ")
	}
	*s = splitScopes(text)
	return nil
}

// Authenticate implements service.Authenticator.
func (j *JWT) Authenticate(ctx context.Context, c service.Credential) (*service.Principal, error) {
	switch {
	case c.Token == "":
		return nil, errNoCredential
	case len(c.Token) > maxToken:
		return nil, errUnknown
	}
	var said tokenClaims
	token, err := j.parser.ParseWithClaims(c.Token, &said, func(t *jwt.Token) (any, error) { return j.key(ctx, t) })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired) && token != nil && onlyExpired(err):
		return nil, service.ErrTokenExpired
	case err != nil:
		return nil, &conversation.Error{Code: conversation.Unauthenticated, Message: "the token is not valid here", Err: err}
	}
	claims := claims{user: said.Subject, tenant: said.Tenant, name: said.Name, scopes: j.c.Scopes}
	if claims.tenant == "" {
		claims.tenant = j.c.Tenant
	}
	if said.Scope != nil {
		claims.scopes = *said.Scope
	}
	who, err := claims.principal()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(c.Token))
	who.Credential = "jwt:" + hex.EncodeToString(sum[:6])
	if who.Expires = said.ExpiresAt.Time; !time.Now().Before(who.Expires) { // by our clock it has ended: the other may be slow
		who.Expires = who.Expires.Add(j.c.Leeway)
	}
	if said.ExpiresAt.After(time.Now().AddDate(100, 0, 0)) {
		who.Expires = time.Time{} // as good as never; a timer so long would overflow
	}
	return who, nil
}

// onlyExpired is true for a token with which nothing is wrong but its age: its sender may
// be told.
func onlyExpired(err error) bool {
	for _, other := range []error{
		jwt.ErrTokenMalformed, jwt.ErrTokenUnverifiable, jwt.ErrTokenSignatureInvalid, jwt.ErrTokenInvalidAudience, jwt.ErrTokenInvalidIssuer,
		jwt.ErrTokenNotValidYet, jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenRequiredClaimMissing,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// key is the key that a token must be signed with.
func (j *JWT) key(ctx context.Context, t *jwt.Token) (any, error) {
	if _, critical := t.Header["crit"]; critical {
		return nil, errors.New("the token asks for something that is not known here (crit)")
	}
	if j.secret != nil {
		return j.secret, nil
	}
	id, given := t.Header["kid"]
	kid, text := id.(string)
	if given && !text {
		return nil, errors.New("kid must be a text")
	}
	return j.keys.key(ctx, kid, t.Method.Alg())
}

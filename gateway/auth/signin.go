package auth

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/conversation/option"
	"parley/gateway/service"
)

// The ways to know who speaks.
const (
	ModeNone  = "none"
	ModeKeys  = "keys"
	ModeJWT   = "jwt"
	ModeProxy = "proxy"
)

// SignIn holds the settings of the [auth] section. The tags describe a field to the configuration:
// option.FieldError lists them.
type SignIn struct {
	Mode     string   `key:"auth.mode" choices:"none,keys,jwt,proxy"`
	KeysFile string   `key:"auth.keys_file"` // what "parley key" writes; "" = keys.toml in the data directory
	Tenant   string   `key:"auth.tenant"`    // jwt, proxy: of those who name none; "" = they are refused
	Scopes   []string `key:"auth.scopes"`    // jwt, proxy: of those who name none

	Secret   string        `key:"auth.hs256_secret" secret:"inline"` // jwt: a shared secret, or a reference (env:NAME, file:PATH) to it
	KeySet   string        `key:"auth.jwks_file"`                    // jwt: a file with public keys
	KeyURL   string        `key:"auth.jwks_url"`                     // jwt: an https address of public keys
	Private  bool          `key:"auth.jwks_private"`                 // jwt: jwks_url may be http, and at an address of a private network
	Refresh  time.Duration `key:"auth.jwks_refresh" min:"1m" max:"24h"`
	Issuer   string        `key:"auth.issuer"`
	Audience string        `key:"auth.audience"`
	Leeway   time.Duration `key:"auth.leeway" min:"0s" max:"5m"`

	UserHeader   string `key:"auth.proxy_header"` // proxy: the user's id
	TenantHeader string `key:"auth.proxy_tenant_header"`
	ScopesHeader string `key:"auth.proxy_scopes_header"`
	NameHeader   string `key:"auth.proxy_name_header"`

	Keys []Key `blocks:"auth.keys"`
}

// Key is a [[auth.keys]] block, or a key of the file.
type Key struct {
	ID      string   `key:"id" toml:"id,omitempty"`     // the part of a key of "parley key" that is no secret
	Hash    string   `key:"hash" toml:"hash,omitempty"` // "sha256:" and the SHA-256 of the key, in hex
	Key     string   `key:"key" toml:"-"`               // or a reference (env:NAME, file:PATH) to the key, or the key itself
	Tenant  string   `key:"tenant" toml:"tenant"`
	User    string   `key:"user" toml:"user"`
	Name    string   `key:"name" toml:"name,omitempty"` // how others see the user
	Scopes  []string `key:"scopes" toml:"scopes"`
	Created string   `key:"created" toml:"created,omitempty"` // for people
	Expires string   `key:"expires" toml:"expires,omitempty"` // "2027-01-31" or "2027-01-31T12:00:00Z"; "" = never
}

// defaultScopes are those of a key that says nothing.
func defaultScopes() []string { return []string{service.ScopeChat, service.ScopeReadTools} }

// DefaultSignIn is that of an empty configuration.
func DefaultSignIn() SignIn {
	return SignIn{Mode: ModeNone, Scopes: defaultScopes(), Refresh: time.Hour, Leeway: 5 * time.Second}
}

// DefaultKey is a block that says nothing.
func DefaultKey() Key { return Key{Tenant: "default", Scopes: defaultScopes()} }

// Validate says what cannot work, by the keys of the configuration; [[auth.keys]] blocks
// are checked by Key.Check.
func (c SignIn) Validate() []option.FieldError {
	wrong := option.OutOfBounds(c)
	refuse := func(key, format string, args ...any) {
		wrong = append(wrong, option.FieldError{Key: key, Sentence: fmt.Sprintf(format, args...)})
	}
	if err := checkScopes(c.Scopes); err != nil {
		refuse("auth.scopes", "%v", err)
	}
	if c.Tenant != "" {
		if err := CheckID("the tenant", c.Tenant); err != nil {
			refuse("auth.tenant", "%v", err)
		}
	}
	for key, name := range map[string]string{
		"auth.proxy_header": c.UserHeader, "auth.proxy_tenant_header": c.TenantHeader,
		"auth.proxy_scopes_header": c.ScopesHeader, "auth.proxy_name_header": c.NameHeader,
	} {
		switch {
		case strings.ContainsFunc(name, func(r rune) bool { return !headerRune(r) }):
			refuse(key, "must be the name of a header such as \"X-Forwarded-User\"")
		case slices.ContainsFunc([]string{"Authorization", "Cookie", "Host", "Origin", "X-Forwarded-For"}, func(h string) bool { return strings.EqualFold(h, name) }):
			refuse(key, "must be a header that the proxy alone sets; %s comes from clients", name)
		}
	}
	if c.KeyURL != "" {
		u, err := url.Parse(c.KeyURL)
		switch {
		case err != nil || u.Host == "" || u.User != nil || u.Fragment != "":
			refuse("auth.jwks_url", `must be an address such as "https://login.example/jwks.json"`)
		case u.Scheme != "https" && (u.Scheme != "http" || !c.Private):
			refuse("auth.jwks_url", "must be https: who can change the answer on its way can sign in as anybody (auth.jwks_private = true allows http within a network of your own)")
		}
	}
	given := 0
	for _, source := range []string{c.Secret, c.KeySet, c.KeyURL} {
		if source != "" {
			given++
		}
	}
	switch {
	case c.Mode == ModeJWT && given != 1:
		refuse("auth.mode", "with jwt exactly one of auth.hs256_secret, auth.jwks_file and auth.jwks_url says with what tokens are signed")
	case c.Mode == ModeProxy && c.UserHeader == "":
		refuse("auth.proxy_header", `must name the header in which the proxy says who asks, for example "X-Forwarded-User"`)
	}
	return wrong
}

func headerRune(r rune) bool {
	return r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_", r))
}

// MaxID bounds the id of a user and of a tenant: they become part of keys in the store
// and of lines in the log.
const MaxID = 128

// maxName bounds the name of a user.
const maxName = 128

// OwnUsers is how the ids of the server's own users begin, which no credential gives: those of channels
// to chat platforms.
const OwnUsers = "channel:"

// CheckID refuses what no id of a user or tenant may be.
func CheckID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is missing", what)
	case len(id) > MaxID:
		return fmt.Errorf("%s must be at most %d bytes", what, MaxID)
	case !utf8.ValidString(id):
		return fmt.Errorf("%s must be UTF-8", what)
	case strings.ContainsFunc(id, unseen):
		return fmt.Errorf("%s must not hold control characters", what)
	case strings.TrimSpace(id) != id:
		return fmt.Errorf("%s must not begin or end with a space", what)
	case strings.HasPrefix(id, OwnUsers):
		return fmt.Errorf("%s must not begin with %q: those are the server's own", what, OwnUsers)
	}
	return nil
}

// unseen is true for what does not show in a text, or changes how the rest shows.
func unseen(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// cleanName is a name as others may be shown it.
func cleanName(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unseen(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, name))
	for len(name) > maxName {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return name
}

func checkScopes(scopes []string) error {
	for _, s := range scopes {
		if !slices.Contains(service.AllScopes(), s) {
			return fmt.Errorf("%q is no scope; there are %s", s, strings.Join(service.AllScopes(), ", "))
		}
	}
	return nil
}

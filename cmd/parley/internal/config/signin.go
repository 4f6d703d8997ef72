package config

import (
	"fmt"
	"net"
	"path/filepath"
	"reflect"

	"parley/gateway"
	"parley/gateway/auth"
)

// authKeys reads the [[auth.keys]] blocks.
func (l *loader) authKeys(at map[string]problem, value any) {
	blocks, ok := value.([]any)
	if !ok {
		l.complain(at["auth.keys"], "auth.keys: write each key as a block that starts with [[auth.keys]]")
		return
	}
	fields := map[string]field{}
	for _, f := range fieldsOf(reflect.TypeFor[auth.Key]()) {
		fields[f.key] = f
	}
	for i, b := range blocks {
		prefix := fmt.Sprintf("auth.keys.%d", i)
		table, ok := b.(map[string]any)
		if !ok {
			l.complain(at["auth.keys"], "auth.keys: write each key as a block that starts with [[auth.keys]]")
			return
		}
		key := auth.DefaultKey()
		before := len(l.problems)
		l.block(at, prefix, fmt.Sprintf("key %d", i+1), fields, table, reflect.ValueOf(&key).Elem())
		if len(l.problems) > before {
			l.breaks(prefix)
		}
		key.Key = filesBeside(at[prefix], key.Key)
		l.references(key.Key)
		l.config.Auth.Keys = append(l.config.Auth.Keys, key)
	}
}

// signIn complains about ways to sign in that make no sense, and about a server that
// would let in everybody.
func (l *loader) signIn(c *Config) {
	l.references(c.Auth.Secret)
	if s := c.Auth.Secret; s != "" && !refers(s) && len(s) < auth.MinSecret {
		l.wrong("auth.hs256_secret", "must have at least 32 bytes, or it could be found by trying (RFC 7518, 3.2)")
	}
	for key, path := range map[string]*string{"auth.jwks_file": &c.Auth.KeySet, "auth.keys_file": &c.Auth.KeysFile} {
		if where := l.origin[key]; where.line > 0 && *path != "" {
			*path = beside(where, *path)
		}
	}
	if where := l.origin["auth.hs256_secret"]; where.line > 0 {
		c.Auth.Secret = filesBeside(where, c.Auth.Secret)
	}
	for i, key := range c.Auth.Keys {
		prefix := fmt.Sprintf("auth.keys.%d", i)
		switch {
		case l.broken[prefix]:
		case key.Key != "" && key.Hash == "" && !refers(key.Key): // from here on there is its hash alone
			if len(key.Key) < auth.MinKey {
				l.complain(l.at(prefix, "key"), "key %d: it must have at least %d characters, or it could be guessed", i+1, auth.MinKey)
			}
			key.Key, key.Hash = "", auth.Hash(key.Key)
			c.Auth.Keys[i] = key
			if err := key.Check(); err != nil {
				l.complain(l.at(prefix, ""), "key %d: %v", i+1, err)
			}
		default:
			if err := key.Check(); err != nil {
				l.complain(l.at(prefix, ""), "key %d: %v", i+1, err)
			}
		}
	}
	if len(c.Auth.Keys) > 0 && c.Auth.Mode != auth.ModeKeys && !l.broken["auth.mode"] {
		l.complain(l.at("auth.keys.0", ""), `[[auth.keys]] is for auth.mode = "keys"; it is %q`, c.Auth.Mode)
	}
	l.exposed(c)
}

// exposed complains about a server that strangers may reach and that asks nobody who they
// are.
func (l *loader) exposed(c *Config) {
	const fixes = `set auth.mode to "keys" ("parley key create" makes them), "jwt" (tokens of a sign-in that you have) ` +
		`or "proxy" (a proxy asks, and says who it is in auth.proxy_header)`
	host, _, err := net.SplitHostPort(c.Gateway.Listen)
	switch {
	case l.broken["auth.mode"]:
	case c.Auth.Mode == auth.ModeNone && err == nil && !gateway.IsLoopback(host):
		l.wrong("listen", `must be a loopback address such as "127.0.0.1:8080" while auth.mode is "none", `+
			"because everyone who reaches it could read and write every session; to serve others "+fixes)
	case c.Auth.Mode == auth.ModeNone && len(c.Gateway.PublicHosts) > 0:
		l.wrong("gateway.public_hosts", `must be empty while auth.mode is "none", because everyone whom the proxy of that host lets through `+
			"could read and write every session; "+fixes)
	case c.Auth.Mode == auth.ModeNone && c.Gateway.TLS.ACME():
		l.wrong("tls.acme_hosts", `must be empty while auth.mode is "none", because everyone who reaches these hosts `+
			"could read and write every session; "+fixes)
	case c.Gateway.TLS.ACME() && c.Ephemeral():
		l.wrong("tls.acme_hosts", "must be empty while nothing is kept (memory.mode): each start would ask for new certificates, until the authority refuses")
	case c.Auth.Mode == auth.ModeProxy && len(c.Gateway.TrustedProxies) == 0:
		l.wrong("gateway.trusted_proxies", `must name the proxy's address while auth.mode is "proxy": what others say in auth.proxy_header does not count`)
	}
}

// KeysFile is where "parley key" keeps the keys; "" = nowhere, because nothing is kept.
func (c *Config) KeysFile() string {
	switch {
	case c.Auth.KeysFile != "":
		return c.Auth.KeysFile
	case c.Ephemeral():
		return ""
	}
	return filepath.Join(c.Data, auth.KeysFile)
}

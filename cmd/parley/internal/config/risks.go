package config

import (
	"net"
	"reflect"
	"slices"
	"strings"

	"parley/gateway"
	"parley/gateway/auth"
	"parley/tools/mcp/secret"
)

// Risk is a combination of settings that works, and that an operator should know of.
type Risk struct {
	Code string // stable, for scripts
	Text string
}

// defaulted are the limits whose 0 means a default.
var defaulted = []string{"limits.connections", "limits.head_bytes"}

// quotas are the limits that are off by default.
var quotas = []string{"limits.sessions_per_tenant", "limits.stored_bytes_per_tenant"}

// Risks looks for risky combinations; the start warns of them, and doctor notes them.
func (c *Config) Risks() (risks []Risk) {
	add := func(when bool, code, text string) {
		if when {
			risks = append(risks, Risk{code, text})
		}
	}
	g := c.Gateway
	beyond, public := !onLoopback(g.Listen), len(g.PublicHosts) > 0 || g.TLS.ACME() || !onLoopback(g.Listen)
	add(g.AdminListen != "" && !onLoopback(g.AdminListen) && g.AdminInsecure, "admin_insecure",
		"admin.insecure: whoever reaches admin.listen ("+g.AdminListen+") reads metrics and profiles, which show what the process does, and makes backups")
	add(g.AdminListen != "" && !onLoopback(g.AdminListen) && !g.AdminInsecure, "admin_public",
		"admin.listen ("+g.AdminListen+") is not a loopback address: keys with the scope admin travel there without encryption")
	add(beyond && c.Auth.Mode != auth.ModeNone && !g.TLS.On(), "no_tls",
		"listen ("+g.Listen+") is not a loopback address and there is no TLS: keys and tokens travel without encryption")
	add(len(g.PublicHosts) > 0 && !beyond && len(g.TrustedProxies) == 0, "proxy_unnamed",
		"gateway.public_hosts is set and gateway.trusted_proxies is empty: behind a proxy everybody has its address, and shares the limits of one address")
	add(c.Auth.Mode == auth.ModeJWT && c.Auth.Secret == "" && c.Auth.Audience == "", "no_audience",
		"auth.audience is empty: whoever holds a token that the same keys have signed for another service is let in here")
	add(c.Auth.Secret != "" && !refers(c.Auth.Secret), "inline_secret",
		"auth.hs256_secret stands in the configuration: whoever reads it can sign in as anybody; write env:NAME or file:PATH")
	add(c.Cluster.Insecure && !onLoopback(c.Cluster.Listen), "cluster_insecure",
		"cluster.insecure: whoever reaches cluster.listen ("+c.Cluster.Listen+") can say anything in the name of any user; only the nodes may reach it")
	add(c.Shared.Postgres != "" && !refers(c.Shared.Postgres) &&
		(secret.WithoutPasswords(c.Shared.Postgres) != c.Shared.Postgres || strings.Contains(c.Shared.Postgres, "password")), "inline_dsn",
		"store.postgres holds a password in the configuration: whoever reads it has the database; write env:NAME or file:PATH")
	add(c.Pushes.Private && slices.Contains(c.Pushes.Hosts, "*"), "push_anywhere",
		"push.hosts allows any host and push.private private addresses: clients can have this server call whatever its network reaches")
	_, port, _ := net.SplitHostPort(g.Listen)
	add(g.TLS.ACME() && port != "443", "acme_port",
		"tls.acme_hosts is set and listen ("+g.Listen+") is not port 443: the authority connects to port 443 of each host, so that has to lead here")
	if unbounded := c.unbounded(); public {
		add(len(unbounded) > 0, "no_limit", "others reach this server and these are without a limit: "+strings.Join(unbounded, ", "))
		add(c.Store.StoredBytesPerTenant == 0, "no_quota", "others reach this server and limits.stored_bytes_per_tenant is 0: one tenant can fill the disk for all")
		add(!c.Backup.On() && c.Shared.Postgres == "" && !c.Ephemeral(), "no_backup", "others reach this server and backup.every is 0: what is said is on one disk, unless something else copies it")
		add(g.AdminListen == "", "no_admin_listen", "admin.listen is empty: /metrics, profiles and backups by the server are nowhere")
	}
	return risks
}

// unbounded are the keys of limits that are switched off, quotas aside.
func (c *Config) unbounded() (keys []string) {
	root := reflect.ValueOf(c).Elem()
	for _, f := range fieldsOf(root.Type()) {
		if strings.HasPrefix(f.key, "limits.") && root.FieldByIndex(f.index).IsZero() && !slices.Contains(slices.Concat(defaulted, quotas), f.key) {
			keys = append(keys, f.key)
		}
	}
	return keys
}

func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && gateway.IsLoopback(host)
}

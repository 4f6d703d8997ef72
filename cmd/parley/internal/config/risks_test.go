package config

import (
	"slices"
	"testing"
	"time"
)

// Each risky combination is named by its code, and a server for oneself has none.
func TestRisks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"for oneself":        {func(*Config) {}, nil},
		"without any limit":  {func(c *Config) { c.Gateway.Limits.FollowsPerConnection = 0 }, nil},
		"admin for everyone": {func(c *Config) { c.Gateway.AdminListen, c.Gateway.AdminInsecure = "0.0.0.0:9090", true }, []string{"admin_insecure"}},
		"behind a proxy": {func(c *Config) {
			c.Gateway.PublicHosts, c.Gateway.AdminListen = []string{"chat.example"}, "127.0.0.1:9090"
		}, []string{"proxy_unnamed", "no_quota", "no_backup"}},
		"behind a proxy that is named, with sign-in": {func(c *Config) {
			c.Auth.Mode = "keys"
			c.Gateway.PublicHosts, c.Gateway.AdminListen, c.Gateway.TrustedProxies = []string{"chat.example"}, "127.0.0.1:9090", []string{"127.0.0.1"}
			c.Store.StoredBytesPerTenant, c.Backup.Every = 1<<30, time.Hour
		}, nil},
		"on the internet": {func(c *Config) {
			c.Auth.Mode = "keys"
			c.Gateway.Listen, c.Gateway.AdminListen = "0.0.0.0:8080", "0.0.0.0:9090"
			c.Gateway.Limits.FollowsPerConnection = 0
		}, []string{"admin_public", "no_tls", "no_limit", "no_quota", "no_backup"}},
		"with certificates by ACME": {func(c *Config) {
			c.Auth.Mode, c.Gateway.Listen, c.Gateway.AdminListen = "keys", "0.0.0.0:443", "127.0.0.1:9090"
			c.Gateway.TLS.ACMEHosts, c.Store.StoredBytesPerTenant, c.Backup.Every = []string{"chat.example"}, 1<<30, time.Hour
		}, nil},
		"with certificates by ACME at another port": {func(c *Config) {
			c.Auth.Mode, c.Gateway.AdminListen = "keys", "127.0.0.1:9090"
			c.Gateway.TLS.ACMEHosts, c.Store.StoredBytesPerTenant, c.Memory = []string{"chat.example"}, 1<<30, "ephemeral"
		}, []string{"acme_port"}},
		"with half of ACME": {func(c *Config) {
			c.Auth.Mode, c.Gateway.Listen, c.Gateway.TLS.ACMEEmail = "keys", "0.0.0.0:443", "a@b.example"
		}, []string{"no_tls", "no_quota", "no_backup", "no_admin_listen"}},
		"without a place for metrics": {func(c *Config) { c.Auth.Mode, c.Gateway.Listen = "keys", "0.0.0.0:8080" }, []string{"no_tls", "no_quota", "no_backup", "no_admin_listen"}},
	} {
		config := Default()
		config.Gateway.Limits = Default().Gateway.Limits
		c.change(&config)
		var got []string
		for _, r := range config.Risks() {
			if r.Text == "" {
				t.Errorf("%s: %s says nothing", name, r.Code)
			}
			if r.Code == "no_limit" && !slices.Contains(config.unbounded(), "limits.follows_per_connection") {
				t.Errorf("%s: %s", name, r.Text)
			}
			got = append(got, r.Code)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

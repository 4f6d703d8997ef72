package gateway_test

import (
	"strconv"
	"testing"

	"parley/gateway"
)

// Requests are bounded by user and by address. Every answer says what is left, a refusal
// says when to come back, and probes are never refused.
func TestRequestRates(t *testing.T) {
	keys := keyring{
		"ann": {Tenant: "default", User: "ann", Scopes: []string{gateway.ScopeChat}},
		"bob": {Tenant: "default", User: "bob", Scopes: []string{gateway.ScopeChat}},
	}
	for _, x := range []struct {
		name           string
		change         func(*gateway.Limits)
		policy, rate   string // of the first answer
		bob, documents int
	}{
		{"requests_per_second", func(l *gateway.Limits) {
			l.RequestsPerSecond, l.RequestsBurst, l.RequestsPerSecondPerAddress = 0.001, 3, 0
		}, `"user";q=3;w=3000`, `"user";r=2;t=1000`, 200, 200},
		{"requests_per_second_per_address", func(l *gateway.Limits) {
			l.RequestsPerSecond, l.RequestsPerSecondPerAddress, l.RequestsBurstPerAddress = 0, 0.001, 3
		}, `"address";q=3;w=3000`, `"address";r=2;t=1000`, 429, 429},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := start(t, func(c *gateway.Config, d *gateway.Deps) {
				x.change(&c.Limits)
				d.Authenticator = keys
			})
			for i := range 3 {
				a := r.call("GET", "/api/sessions", "", "Authorization", "Bearer ann").want(t, 200)
				if i == 0 && (a.header.Get("RateLimit-Policy") != x.policy || a.header.Get("RateLimit") != x.rate) {
					t.Errorf("%v", a.header)
				}
			}
			a := r.call("GET", "/api/sessions", "", "Authorization", "Bearer ann")
			a.problem(t, 429, "rate_limited")
			if after, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || after < 900 || after > 1000 {
				t.Errorf("Retry-After: %q", a.header.Get("Retry-After"))
			}
			if n := r.metric("parley_gateway_refused_total", "limit", x.name); n != 1 {
				t.Errorf("%v refusals are counted", n)
			}
			r.call("GET", "/api/sessions", "", "Authorization", "Bearer bob").want(t, x.bob)
			r.call("GET", "/openapi.yaml", "").want(t, x.documents)
			r.call("GET", "/livez", "").want(t, 200)
			r.call("GET", "/readyz", "").want(t, 200)
		})
	}
}

// Who has signed in is counted as a user, not with those behind the same address: one of
// them who floods takes nothing from the others, nor from who reads the page.
func TestRatesOfUsersBehindOneAddress(t *testing.T) {
	r := start(t, func(c *gateway.Config, d *gateway.Deps) {
		c.Limits.RequestsPerSecond, c.Limits.RequestsBurst = 0.001, 3
		c.Limits.RequestsPerSecondPerAddress, c.Limits.RequestsBurstPerAddress = 0.001, 5
		d.Authenticator = keyring{
			"ann": {Tenant: "default", User: "ann", Scopes: []string{gateway.ScopeChat}},
			"bob": {Tenant: "default", User: "bob", Scopes: []string{gateway.ScopeChat}},
		}
	})
	for i := range 20 {
		if status, want := r.call("GET", "/api/sessions", "", "Authorization", "Bearer ann").status, 200; i < 3 && status != want || i >= 3 && status != 429 {
			t.Fatalf("request %d of ann: %d", i+1, status)
		}
	}
	r.call("GET", "/api/sessions", "", "Authorization", "Bearer bob").want(t, 200)
	for range 5 { // the address counts who is nobody
		r.call("GET", "/api/sessions", "", "Authorization", "Bearer eve").want(t, 401)
	}
	r.call("GET", "/openapi.yaml", "").want(t, 429)
}

// With auth.mode none everybody is one user, whom the rate of a user does not count.
func TestRequestRateWithoutUsers(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.Limits.RequestsPerSecond, c.Limits.RequestsBurst = 0.001, 1
	})
	for range 5 {
		r.call("GET", "/api/sessions", "").want(t, 200)
	}
}

package gateway

import "testing"

// FuzzHosts: no spelling of Host and Origin lets a foreign page in.
func FuzzHosts(f *testing.F) {
	for _, s := range [][2]string{
		{"127.0.0.1:8080", "http://127.0.0.1:8080"}, {"localhost", "null"}, {"chat.example.", "https://chat.example"},
		{"[::1]:1", "http://[::1]:1"}, {"127.0.0.1:8080@evil", "http://a@127.0.0.1"}, {"", "http://"},
	} {
		f.Add(s[0], s[1])
	}
	policy := newHostPolicy(Config{Listen: "127.0.0.1:8080", PublicHosts: []string{"chat.example"}, AllowedOrigins: []string{"https://app.example"}})
	own := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "chat.example": true}
	f.Fuzz(func(t *testing.T, host, origin string) {
		name, _ := splitHost(host)
		if policy.knowsHost(host) && !own[name] {
			t.Errorf("%q is taken for one of ours", host)
		}
		if !policy.knowsHost(host) || !policy.admits(origin, host) || origin == "" {
			return
		}
		if o, ok := parseOrigin(origin); !ok || (!own[o.host] && o.host != "app.example") {
			t.Errorf("%q may use %q", origin, host)
		}
	})
}

package gateway_test

import (
	"context"
	"io"
	"net"
	"testing"

	"parley/gateway"
)

// seen remembers from which address credentials came.
type seen struct{ address chan string }

func (seen) Mode() string { return "none" }
func (s seen) Authenticate(ctx context.Context, c gateway.Credential) (*gateway.Principal, error) {
	s.address <- c.Address
	return gateway.NoAuth{}.Authenticate(ctx, c)
}

// X-Forwarded-For counts when a trusted proxy says it, and all headers of that name do.
func TestAddressBehindProxy(t *testing.T) {
	for _, x := range []struct {
		trusted []string
		want    string
	}{{nil, "127.0.0.1"}, {[]string{"10.0.0.0/8"}, "127.0.0.1"}, {[]string{"127.0.0.0/8", "10.0.0.0/8"}, "203.0.113.9"}} {
		who := seen{make(chan string, 1)}
		r := start(t, func(c *gateway.Config, d *gateway.Deps) {
			c.TrustedProxies, d.Authenticator = x.trusted, who
		})
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.WriteString(conn, "GET /api/sessions HTTP/1.1\r\nHost: "+r.addr+"\r\nX-Forwarded-For: 198.51.100.1, 203.0.113.9\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if got := <-who.address; got != x.want {
			t.Errorf("trusted %v: the client is %s, want %s", x.trusted, got, x.want)
		}
		_ = conn.Close()
	}
}

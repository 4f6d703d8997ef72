package gateway_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

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

// As many TCP connections as allowed get in, from one address and in all; the next is
// closed unanswered and counted, and when one leaves another may come. What a trusted
// proxy brings is not counted by address.
func TestTCPConnectionLimits(t *testing.T) {
	for _, x := range []struct {
		limit   string
		set     func(*gateway.Config)
		refuses bool
	}{
		{"connections", func(c *gateway.Config) { c.Limits.Connections = 2 }, true},
		{"connections_per_address", func(c *gateway.Config) { c.Limits.ConnectionsPerAddress = 2 }, true},
		{"connections_per_address", func(c *gateway.Config) {
			c.Limits.ConnectionsPerAddress, c.TrustedProxies = 2, []string{"127.0.0.1"}
		}, false},
	} {
		r := start(t, func(c *gateway.Config, _ *gateway.Deps) { x.set(c) })
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", r.addr)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		alive := func(conn net.Conn) bool {
			_, _ = io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: "+r.addr+"\r\n\r\n")
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			n, _ := conn.Read(make([]byte, 4096))
			return n > 0
		}
		first, second := dial(), dial()
		if !alive(first) || !alive(second) {
			t.Fatalf("%s: one of two was refused", x.limit)
		}
		if alive(dial()) == x.refuses {
			t.Errorf("%s: a third one is refused: %v, want %v", x.limit, !x.refuses, x.refuses)
		}
		if n := r.metric("parley_gateway_refused_total", "limit", x.limit); (n == 1) != x.refuses {
			t.Errorf("%s: counted %v", x.limit, n)
		}
		if !x.refuses {
			continue
		}
		_ = first.Close()
		waitFor(t, func() bool { return r.metric("parley_gateway_tcp_connections") == 1 })
		if !alive(dial()) {
			t.Errorf("%s: after one left the next is refused", x.limit)
		}
	}
}

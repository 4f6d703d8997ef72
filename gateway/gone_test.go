package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
)

// raw connects and sends text; it answers the first status line.
func (r *rig) raw(t *testing.T, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

// until waits until what is asked for holds. Only a failing test waits long.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond) // nobody tells that a client has gone
	defer look.Stop()
	for end := time.After(20 * time.Second); !holds(); {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

const openStream = "GET /api/sessions/s1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"

// A stream ends with its client, not with the second comment that cannot be written:
// until then its place would be taken.
func TestStreamEndsWithItsClient(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.Limits.Streams, c.Times.Comment = 3, time.Hour
	})
	r.sessions.Open("s1", "local")
	for range 20 {
		c, in := r.raw(t, openStream)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Fatalf("%q %v", line, err)
		}
		_ = c.Close()
		until(t, "the stream ends", func() bool {
			return r.metric("parley_gateway_streams") == 0 && r.metric("parley_gateway_follows") == 0
		})
	}
}

// Streams are counted before anything is done for them: together, by user and by address.
func TestStreamLimits(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*gateway.Config)
		same   bool // the second user's stream is refused as well
		code   conversation.Code
	}{
		{"streams", func(c *gateway.Config) { c.Limits.Streams = 1 }, true, "overloaded"},
		{"streams_per_user", func(c *gateway.Config) { c.Limits.StreamsPerUser = 1 }, false, "rate_limited"},
		{"streams_per_address", func(c *gateway.Config) { c.Limits.StreamsPerAddress = 1 }, true, "rate_limited"},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := start(t, func(c *gateway.Config, d *gateway.Deps) {
				x.change(c)
				d.Authenticator = keyring{
					"ann": {Tenant: "default", User: "ann", Scopes: []string{gateway.ScopeChat}},
					"bob": {Tenant: "default", User: "bob", Scopes: []string{gateway.ScopeChat}},
				}
			})
			r.sessions.Open("s1", "ann")
			r.sessions.Open("s2", "bob")
			_, end := r.streamOf("/api/sessions/s1/stream", "Authorization", "Bearer ann")
			status := map[conversation.Code]int{"overloaded": 503, "rate_limited": 429}[x.code]
			r.call("GET", "/api/sessions/s1/stream", "", "Authorization", "Bearer ann").problem(t, status, x.code)
			if x.same {
				r.call("GET", "/api/sessions/s2/stream", "", "Authorization", "Bearer bob").problem(t, status, x.code)
			} else {
				_, endOther := r.streamOf("/api/sessions/s2/stream", "Authorization", "Bearer bob")
				endOther()
			}
			if n := r.metric("parley_gateway_refused_total", "limit", x.name); n < 1 {
				t.Errorf("%v refusals are counted", n)
			}
			end()
			until(t, "its place is free", func() bool { return r.metric("parley_gateway_streams") == 0 })
			r.call("GET", "/api/sessions/nothing/stream", "", "Authorization", "Bearer ann").problem(t, 404, "not_found") // gives its place back
			_, end = r.streamOf("/api/sessions/s1/stream", "Authorization", "Bearer ann")
			end()
		})
	}
}

// Browsers come back by themselves: not all at the same moment, and when the server
// goes away in the time that it asks for.
func TestStreamSaysWhenToComeBack(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	seen := make(map[string]bool)
	var lines []*bufio.Reader
	for range 8 {
		_, in := r.raw(t, openStream)
		lines = append(lines, in)
		seen[lineWith(t, in, "retry: ")] = true
	}
	if len(seen) < 2 {
		t.Errorf("all come back after %v", seen)
	}
	r.server.Announce()
	for _, in := range lines {
		retry := strings.TrimPrefix(strings.TrimSpace(lineWith(t, in, "retry: ")), "retry: ")
		if data := lineWith(t, in, "data: "); !strings.Contains(data, `"retry_in_ms":`+retry) {
			t.Errorf("retry %s, %s", retry, data)
		}
	}
}

func lineWith(t *testing.T, in *bufio.Reader, prefix string) string {
	t.Helper()
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("no line with %q: %v", prefix, err)
		}
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
}

func waiting(n int) string {
	body := fmt.Sprintf(`{"text":"x%d"}`, n)
	return fmt.Sprintf("POST /api/sessions/s1/messages?wait=5m HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// A request that waits ends with its client: nothing of it is left in the follow table.
func TestWaitEndsWithItsClient(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	for i, ends := range []func(c net.Conn){
		func(c net.Conn) { _ = c.Close() },
		func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() },
		func(c net.Conn) { // with another request behind it that nobody will read
			_, _ = c.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"))
			_ = c.Close()
		},
	} {
		c, _ := r.raw(t, waiting(i))
		until(t, "it waits", func() bool { return r.metric("parley_gateway_follows") == 1 })
		ends(c)
		until(t, "it waits no longer", func() bool { return r.metric("parley_gateway_follows") == 0 })
	}
}

// Watching for the client's end takes nothing from the connection: the answer comes, and
// requests that were sent meanwhile are answered too.
func TestWaitKeepsItsConnection(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	c, in := r.raw(t, "")
	for n := range 3 {
		_, _ = c.Write([]byte(waiting(n)))
		until(t, "it waits", func() bool { return r.metric("parley_gateway_follows") == 1 })
		if _, err := c.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		r.sessions.Model(key, machinetest.Text("done"))
		for _, want := range []string{`"how":"answered"`, `"alive"`} {
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body := make([]byte, response.ContentLength)
			if _, err := response.Body.Read(body); response.StatusCode != 200 || !strings.Contains(string(body), want) {
				t.Fatalf("%d %s %v, want %s", response.StatusCode, body, err, want)
			}
		}
	}
}

// Where too many wait already, a message is accepted and answered at once.
func TestWaitLimits(t *testing.T) {
	for name, change := range map[string]func(*gateway.Config){
		"waits_per_session": func(c *gateway.Config) { c.Limits.WaitsPerSession = 1 },
		"waits_per_address": func(c *gateway.Config) { c.Limits.WaitsPerAddress = 1 },
	} {
		r := start(t, func(c *gateway.Config, _ *gateway.Deps) { change(c) })
		r.sessions.Open("s1", "local")
		r.raw(t, waiting(1))
		until(t, "one waits", func() bool { return r.metric("parley_gateway_follows") == 1 })
		r.call("POST", "/api/sessions/s1/messages?wait=5m", `{"text":"y"}`).want(t, 202)
		if n := r.metric("parley_gateway_refused_total", "limit", name); n != 1 {
			t.Errorf("%s: %v refusals are counted", name, n)
		}
	}
}

package gateway_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"

	"github.com/coder/websocket"
)

// patience is how long a test waits for what must come; no test takes so long.
const patience = 2 * time.Minute

func limits(f func(*gateway.Limits)) setup {
	return func(c *gateway.Config, _ *gateway.Deps) { f(&c.Limits) }
}

func times(f func(*gateway.Times)) setup {
	return func(c *gateway.Config, _ *gateway.Deps) { f(&c.Times) }
}

// badAuth refuses tokens by their names.
type badAuth struct{ expires time.Duration }

func (badAuth) Mode() string { return "keys" }

func (a badAuth) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	p := &gateway.Principal{Tenant: "default", User: "ann", Scopes: []string{gateway.ScopeChat}}
	switch c.Token {
	case "good":
		return p, nil
	case "bob":
		p.User = "bob"
		return p, nil
	case "short":
		p.Expires = time.Now().Add(a.expires)
		return p, nil
	case "nochat":
		p.Scopes = nil
		return p, nil
	case "locked":
		return nil, conversation.Errorf(conversation.Forbidden, "locked out")
	case "old":
		return nil, conversation.Errorf(conversation.TokenExpired, "the token has expired")
	default:
		return nil, conversation.Errorf(conversation.Unauthenticated, "who are you?")
	}
}

func withAuth(a gateway.Authenticator) setup {
	return func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = a }
}

// Each row of the protocol's close codes, by what brings it about.
// PROTOCOL.md, rules 1.1, 6.1, 6.2, 6.3.
func TestCloseCodes(t *testing.T) {
	hello := gatewaytest.Command("hello", "1", "", obj{"proto": 1})
	for _, x := range []struct {
		name  string
		setup []setup
		do    func(c *gatewaytest.Client, r *rig)
		code  int
		error string // the error frame before it; "" = none
	}{
		{"1003 binary", nil, func(c *gatewaytest.Client, _ *rig) {
			_ = c.WS.Write(t.Context(), websocket.MessageBinary, []byte("x"))
		}, 1003, ""},
		{"1007 UTF-8", nil, func(c *gatewaytest.Client, _ *rig) { c.Write("{\"type\":\"\xff\"}") }, 1007, ""},
		{"1009 too big", []setup{limits(func(l *gateway.Limits) { l.FrameBytes, l.TextBytes = 1000, 1000 })}, func(c *gatewaytest.Client, _ *rig) {
			c.Write(hello)
			c.Read()
			c.Write(`{"type":"ping","id":"2","data":{"t":"` + strings.Repeat("x", 100_000) + `"}}`)
		}, 1009, "too_large"},
		{"1012 restart", nil, func(c *gatewaytest.Client, r *rig) {
			c.Write(hello)
			c.Read()
			go func() { _ = r.stop() }()
		}, 1012, ""},
		{"4000 panic", []setup{func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = panicking{} }}, func(c *gatewaytest.Client, _ *rig) {
			c.Write(hello)
		}, 4000, ""},
		{"4002 hello timeout", []setup{times(func(x *gateway.Times) { x.Hello = 20 * time.Millisecond })}, func(*gatewaytest.Client, *rig) {}, 4002, ""},
		{"4006 before hello", []setup{limits(func(l *gateway.Limits) { l.ConnectionsBeforeHello = 1 })}, func(_ *gatewaytest.Client, r *rig) {}, 0, ""},
		{"4007 expired", []setup{withAuth(badAuth{30 * time.Millisecond}), times(func(x *gateway.Times) { x.Heartbeat = 20 * time.Millisecond })}, func(c *gatewaytest.Client, _ *rig) {
			c.Write(gatewaytest.Command("hello", "1", "", obj{"proto": 1, "token": "short"}))
		}, 4007, ""},
		{"4008 flood", []setup{limits(func(l *gateway.Limits) { l.CommandsPerSecond, l.CommandsBurst = 0.001, 2 })}, func(c *gatewaytest.Client, _ *rig) {
			c.Write(hello)
			for range 20 {
				c.Write(`{"type":"ping","id":"x"}`)
			}
		}, 4008, "rate_limited"},
		{"4500 no hello", nil, func(c *gatewaytest.Client, _ *rig) { c.Write(`{"type":"ping","id":"1"}`) }, 4500, "bad_request"},
		{"4500 no JSON", nil, func(c *gatewaytest.Client, _ *rig) { c.Write(`hello`) }, 4500, "invalid_json"},
		{"4501 unknown", []setup{withAuth(badAuth{})}, func(c *gatewaytest.Client, _ *rig) { c.Write(hello) }, 4501, "unauthenticated"},
		{"4501 expired", []setup{withAuth(badAuth{})}, func(c *gatewaytest.Client, _ *rig) {
			c.Write(gatewaytest.Command("hello", "1", "", obj{"proto": 1, "token": "old"}))
		}, 4501, "token_expired"},
		{"4502 forbidden", []setup{withAuth(badAuth{})}, func(c *gatewaytest.Client, _ *rig) {
			c.Write(gatewaytest.Command("hello", "1", "", obj{"proto": 1, "token": "locked"}))
		}, 4502, "forbidden"},
		{"4503 version", nil, func(c *gatewaytest.Client, _ *rig) {
			c.Write(gatewaytest.Command("hello", "1", "", obj{"proto": 2}))
		}, 4503, "bad_request"},
	} {
		if x.code == 0 {
			continue // below, with two connections
		}
		t.Run(x.name, func(t *testing.T) {
			r := start(t, x.setup...)
			c := gatewaytest.Dial(t, r.addr)
			x.do(c, r)
			code, reason, before := c.Closed()
			if code != x.code {
				t.Fatalf("closed with %d %q, want %d; before it %v", code, reason, x.code, frames(before))
			}
			found := x.error == ""
			for _, f := range before {
				found = found || (f.Error != nil && f.Error.Code == x.error)
				if strings.Contains(string(f.Raw)+reason, "secret") {
					t.Errorf("a detail leaked: %s %q", f.Raw, reason)
				}
			}
			if !found {
				t.Errorf("no error %s before it: %v", x.error, frames(before))
			}
			_ = r.stop()
			if n := r.metric("parley_gateway_closes_total", "code", fmt.Sprint(x.code)); n != 1 {
				t.Errorf("counted %v closes", n)
			}
			for _, state := range []string{"open", "before_hello"} {
				if n := r.metric("parley_gateway_connections", "state", state); n != 0 {
					t.Errorf("%v connections are left %s", n, state)
				}
			}
		})
	}
}

func frames(list []gatewaytest.Frame) (all []string) {
	for _, f := range list {
		all = append(all, string(f.Raw))
	}
	return all
}

// What ends a connection before hello is what was wrong with its first frame: a client
// whose hello could not be read is not told that it was another command.
func TestCloseSaysWhatWasWrongWithTheFirstFrame(t *testing.T) {
	r := start(t)
	for frame, want := range map[string]string{
		`{"type":"hello","id":7,"data":{"proto":1}}`: "id must be a string",
		`{"type":"ping","id":"1"}`:                   "the first command must be hello",
		`hello`:                                      "the frame is not valid JSON",
	} {
		c := gatewaytest.Dial(t, r.addr)
		c.Write(frame)
		if code, reason, before := c.Closed(); code != 4500 || !strings.HasPrefix(reason, want) || len(before) != 1 || before[0].Error.Message != reason {
			t.Errorf("%s: closed with %d %q, want 4500 %q; before it %v", frame, code, reason, want, frames(before))
		}
	}
}

type panicking struct{}

func (panicking) Mode() string { return "keys" }
func (panicking) Authenticate(context.Context, gateway.Credential) (*gateway.Principal, error) {
	panic("secret internals")
}

// Connection limits, both sides: as many as allowed get in, the next does not,
// and when one leaves another may come. Before hello the next does, and the oldest leaves.
// PROTOCOL.md, rule 6.5.
func TestConnectionLimits(t *testing.T) {
	t.Run("before hello", func(t *testing.T) {
		for name, set := range map[string]func(*gateway.Limits){
			"connections_before_hello":             func(l *gateway.Limits) { l.ConnectionsBeforeHello = 2 },
			"connections_before_hello_per_address": func(l *gateway.Limits) { l.ConnectionsBeforeHelloByAddress = 2 },
		} {
			r := start(t, limits(set))
			a := gatewaytest.Dial(t, r.addr)
			waitFor(t, func() bool { return r.metric("parley_gateway_connections", "state", "before_hello") == 1 })
			b := gatewaytest.Dial(t, r.addr)
			waitFor(t, func() bool { return r.metric("parley_gateway_connections", "state", "before_hello") == 2 })
			third := gatewaytest.Dial(t, r.addr)
			if code, reason, _ := a.Closed(); code != 4006 || reason != name {
				t.Errorf("%s: the first was closed with %d %q", name, code, reason)
			}
			for _, c := range []*gatewaytest.Client{b, third} {
				if f := c.Do("hello", "", obj{"proto": 1}); f.Type != "ok" {
					t.Errorf("%s: %s", name, f.Raw)
				}
			}
			gatewaytest.Connect(t, r.addr) // there is room again
			if n := r.metric("parley_gateway_refused_total", "limit", name); n != 1 {
				t.Errorf("%s: counted %v", name, n)
			}
		}
	})
	t.Run("per user and tenant", func(t *testing.T) {
		for name, set := range map[string]func(*gateway.Limits){
			"connections_per_user":   func(l *gateway.Limits) { l.ConnectionsPerUser = 2 },
			"connections_per_tenant": func(l *gateway.Limits) { l.ConnectionsPerTenant = 2 },
		} {
			r := start(t, limits(set))
			a, b := gatewaytest.Connect(t, r.addr), gatewaytest.Connect(t, r.addr)
			c := gatewaytest.Dial(t, r.addr)
			if f := c.Do("hello", "", obj{"proto": 1}); f.Error == nil || f.Error.Code != "overloaded" {
				t.Errorf("%s: %s", name, f.Raw)
			}
			if code, reason, _ := c.Closed(); code != 4504 || reason != name {
				t.Errorf("%s: closed with %d %q", name, code, reason)
			}
			_ = a.WS.Close(websocket.StatusNormalClosure, "")
			waitFor(t, func() bool { return r.metric("parley_gateway_connections", "state", "open") == 1 })
			if f := gatewaytest.Dial(t, r.addr).Do("hello", "", obj{"proto": 1}); f.Type != "ok" {
				t.Errorf("%s: after one left: %s", name, f.Raw)
			}
			_ = b
		}
	})
	t.Run("follows", func(t *testing.T) {
		r := start(t, limits(func(l *gateway.Limits) { l.FollowsPerConnection = 2 }))
		for _, s := range []string{"s1", "s2", "s3"} {
			r.sessions.Open(s, "local")
		}
		c := gatewaytest.Connect(t, r.addr)
		for i, s := range []string{"s1", "s2", "s2", "s3"} {
			f := c.Do("follow", s, nil)
			if ok := f.Type == "ok"; ok != (i < 3) {
				t.Errorf("follow %d: %s", i, f.Raw)
			}
		}
		c.Do("unfollow", "s1", nil)
		if f := c.Do("follow", "s3", nil); f.Type != "ok" {
			t.Errorf("after an unfollow: %s", f.Raw)
		}
		if err := r.sessions.Erase(t.Context(), gatewaytest.Key("s3"), "local"); err != nil {
			t.Fatal(err)
		}
		if f := c.Do("follow", "s1", nil); f.Type != "ok" {
			t.Errorf("after one was erased: %s", f.Raw)
		}
	})
}

// waitFor asks again and again until a thing is so; it yields in between and
// gives up after a time that no passing test comes near to.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it never came to be so")
		}
	}
}

// The token bucket counts frames, of any kind, and gives way with time.
// PROTOCOL.md, rule 6.5.
func TestRateLimit(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.CommandsPerSecond, l.CommandsBurst = 10, 50 }))
	c := gatewaytest.Connect(t, r.addr)
	limited := 0
	for range 200 {
		c.Write(`nonsense`)
	}
	c.Send("ping", "", nil)
	for i := 0; i < 201; i++ {
		f := c.Read()
		if f.Error != nil && f.Error.Code == "rate_limited" {
			limited++
			if f.Error.RetryAfterMS < 1 || !f.Error.Retryable {
				t.Errorf("%s", f.Raw)
			}
		}
	}
	if limited == 0 || limited == 201 {
		t.Errorf("%d of 201 frames were limited", limited)
	}
	if n := r.metric("parley_gateway_rate_limited_total"); n != float64(limited) {
		t.Errorf("counted %v, saw %d", n, limited)
	}
}

// Silence is answered with pings and hb; a client that does not even pong is cut.
// PROTOCOL.md, rule 5.9.
func TestHeartbeat(t *testing.T) {
	fast := times(func(x *gateway.Times) { x.Heartbeat, x.ReadDeadline = 20*time.Millisecond, 60*time.Millisecond })
	// Where the client must survive, a busy machine gets time to be late.
	steady := times(func(x *gateway.Times) { x.Heartbeat, x.ReadDeadline = 100*time.Millisecond, 800*time.Millisecond })
	t.Run("hb", func(t *testing.T) {
		r := start(t, steady)
		c := gatewaytest.Connect(t, r.addr)
		for range 12 { // longer than the deadline: the library answers pings
			if f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "hb" }); f.Get("ts") == "" {
				t.Errorf("%s", f.Raw)
			}
		}
	})
	t.Run("a client that only listens", func(t *testing.T) {
		r := start(t, steady)
		key := r.sessions.Open("s1", "local")
		c := gatewaytest.Connect(t, r.addr)
		c.Do("follow", "s1", obj{"since": 1})
		pace := time.NewTicker(15 * time.Millisecond) // there is always traffic to it, none from it
		defer pace.Stop()
		for range 120 { // two deadlines
			r.sessions.Say(key, 1)
			c.Until(func(f gatewaytest.Frame) bool { return f.Seq > 0 })
			<-pace.C
		}
	})
	t.Run("4003", func(t *testing.T) {
		r := start(t, fast)
		s := dialRaw(t, r.addr)
		s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
		for {
			op, payload := s.read()
			if op == 8 {
				if code := binary.BigEndian.Uint16(payload); code != 4003 {
					t.Errorf("closed with %d %s", code, payload[2:])
				}
				break
			}
		}
	})
}

// raw is a WebSocket client that does only what it is told to.
type raw struct {
	t    *testing.T
	conn net.Conn
	buf  []byte
}

func dialRaw(t *testing.T, addr string, headers ...string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := &raw{t: t, conn: conn}
	request := "GET /ws HTTP/1.1\r\nHost: " + addr + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, h := range headers {
		request += h + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	for !bytes.Contains(s.buf, []byte("\r\n\r\n")) {
		s.more()
	}
	head, rest, _ := bytes.Cut(s.buf, []byte("\r\n\r\n"))
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 101")) {
		t.Fatalf("%s", head)
	}
	if bytes.Contains(bytes.ToLower(head), []byte("permessage-deflate")) {
		t.Errorf("compression was agreed to: %s", head)
	}
	s.buf = append([]byte(nil), rest...)
	return s
}

func (s *raw) more() {
	s.t.Helper()
	b := make([]byte, 64<<10)
	n, err := s.conn.Read(b)
	if err != nil {
		s.t.Fatalf("read: %v", err)
	}
	s.buf = append(s.buf, b[:n]...)
}

func (s *raw) need(n int) {
	for len(s.buf) < n {
		s.more()
	}
}

// read is the next frame, control frames too.
func (s *raw) read() (op byte, payload []byte) {
	s.need(2)
	n, head := int(s.buf[1]), 2
	switch n {
	case 126:
		s.need(4)
		n, head = int(binary.BigEndian.Uint16(s.buf[2:])), 4
	case 127:
		s.need(10)
		n, head = int(binary.BigEndian.Uint64(s.buf[2:])), 10
	}
	s.need(head + n)
	op, payload = s.buf[0]&15, append([]byte(nil), s.buf[head:head+n]...)
	s.buf = s.buf[head+n:]
	return op, payload
}

func (s *raw) send(first byte, payload string) {
	s.t.Helper()
	if first < 16 {
		first |= 0x80
	}
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	default:
		b = append(b, 0x80|127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, 0, 0, 0, 0) // a mask of zeros
	if _, err := s.conn.Write(append(b, payload...)); err != nil {
		s.t.Logf("write: %v", err)
	}
}

// A compressed frame cannot get past the read limit, because there is none: the
// extension is not agreed to, and its bit is an error.
func TestNoCompressionBomb(t *testing.T) {
	r := start(t, times(func(x *gateway.Times) { x.Hello = time.Hour })) // the frame is the first thing that it says
	s := dialRaw(t, r.addr, "Sec-WebSocket-Extensions: permessage-deflate")
	var bomb bytes.Buffer
	w, _ := flate.NewWriter(&bomb, flate.BestCompression)
	_, _ = w.Write(bytes.Repeat([]byte(" "), 10<<20))
	_ = w.Flush()
	s.send(0x80|0x40|1, strings.TrimSuffix(bomb.String(), "\x00\x00\xff\xff"))
	if op, payload := s.read(); op != 8 || binary.BigEndian.Uint16(payload) != 1002 {
		t.Errorf("answered with %d %q", op, payload)
	}
}

// Pings in the middle of a busy writer, and the client's close, are answered by
// the writer; concurrent writes would panic.
func TestControlFramesGoThroughTheWriter(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	s := dialRaw(t, r.addr)
	s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
	s.send(1, gatewaytest.Command("follow", "2", "s1", obj{"since": 0}))
	r.sessions.Say(key, 500)
	const pings = 30 // fewer than limits.control_frames_burst
	for i := range pings {
		s.send(9, fmt.Sprint(i))
	}
	s.send(8, "\x03\xe8bye")
	pongs, events := 0, 0
	for {
		op, payload := s.read()
		switch op {
		case 10:
			if string(payload) != fmt.Sprint(pongs) {
				t.Fatalf("pong %d says %q", pongs, payload)
			}
			pongs++
		case 1:
			events++
		case 8:
			if code := binary.BigEndian.Uint16(payload); code != 1000 {
				t.Errorf("closed with %d", code)
			}
			if pongs != pings || events == 0 {
				t.Errorf("%d pongs, %d frames", pongs, events)
			}
			return
		}
	}
}

// A connection is never another one's: what is kept of one is its own (the shim's
// wrapper goes back to a pool).
func TestConnectionsAreNotReused(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	first := gatewaytest.Connect(t, r.addr)
	hold := r.sessions.Hold()
	first.Send("send", "s1", obj{"client_msg_id": "a", "text": "x"})
	first.Send("follow", "s1", nil)
	_ = first.WS.Close(websocket.StatusNormalClosure, "")
	waitFor(t, func() bool { return r.metric("parley_gateway_connections", "state", "open") == 0 })
	second := gatewaytest.Connect(t, r.addr)
	hold() // the answers of the first connection come now
	if f := second.Do("ping", "", obj{"t": 1}); f.Type != "ok" {
		t.Fatalf("%s", f.Raw)
	}
	r.sessions.Say(gatewaytest.Key("s1"), 3)
	r.sessions.Do(func() {})
	id := second.Send("ping", "", obj{"t": 2})
	if f := second.Read(); f.Re == nil || *f.Re != id {
		t.Errorf("the second connection got %s", f.Raw)
	}
	waitFor(t, func() bool { return r.metric("parley_gateway_follows") == 0 })
}

// A pinging flood is no reason to hold a thousand sockets open: all are told 1012.
func TestShutdownOfAThousandSockets(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) {
		l.ConnectionsBeforeHello, l.ConnectionsBeforeHelloByAddress, l.ConnectionsPerUser = 0, 0, 0
	}))
	const n = 1000
	clients := make([]*gatewaytest.Client, n)
	for i := range clients {
		clients[i] = gatewaytest.Connect(t, r.addr)
	}
	type end struct {
		code   int
		goaway bool
	}
	ends := make(chan end, n)
	for _, c := range clients {
		go func() {
			code, _, before := c.Closed()
			goaway := false
			for _, f := range before {
				goaway = goaway || (f.Type == "goaway" && f.Get("code") == "1012" && f.Get("retry_in_ms") != "")
			}
			ends <- end{code, goaway}
		}()
	}
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	t.Logf("%d sockets were closed in %v", n, time.Since(began))
	for range n {
		if e := <-ends; e.code != 1012 || !e.goaway {
			t.Fatalf("a client saw %+v", e)
		}
	}
	if _, _, err := gatewaytest.TryDial(t, r.addr, nil); err == nil {
		t.Error("the server still listens")
	}
}

// A server that never ran can be closed, and closed again.
func TestCloseWithoutRun(t *testing.T) {
	hub := gateway.NewHub(nil)
	sessions := gatewaytest.NewSessions(hub)
	defer sessions.Close()
	cfg := gateway.DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	server, err := gateway.New(cfg, gateway.Deps{Sessions: sessions, Hub: hub})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
	if conn, err := net.Dial("tcp", addr.String()); err == nil {
		_ = conn.Close()
		t.Error("it still listens")
	}
}

// Announce tells clients and readiness, and keeps serving those who are there.
// PROTOCOL.md, rule 4.8.
func TestAnnounce(t *testing.T) {
	r := start(t)
	r.call("GET", "/readyz", "").want(t, 200)
	c := gatewaytest.Connect(t, r.addr)
	r.server.Announce()
	if f := c.Read(); f.Type != "goaway" || f.Get("code") != "1012" {
		t.Errorf("%s", f.Raw)
	}
	r.call("GET", "/readyz", "").problem(t, 503, "unavailable")
	r.call("GET", "/livez", "").want(t, 200)
	_, response, err := gatewaytest.TryDial(t, r.addr, nil)
	if err == nil || response == nil || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a new socket got %v", response)
	}
	if f := c.Do("ping", "", nil); f.Type != "ok" {
		t.Errorf("%s", f.Raw)
	}
}

// A token may be replaced in time, by one of the same user.
// PROTOCOL.md, rule 2.12.
func TestRefresh(t *testing.T) {
	r := start(t, withAuth(badAuth{time.Hour}))
	c := gatewaytest.Dial(t, r.addr)
	if f := c.Do("hello", "", obj{"proto": 1, "token": "short"}); f.Get("user") != "ann" {
		t.Fatalf("%s", f.Raw)
	}
	if f := c.Do("refresh", "", obj{"token": "short"}); f.Type != "ok" || f.Get("expires_at") == "" {
		t.Errorf("%s", f.Raw)
	}
	for token, code := range map[string]string{"bob": "forbidden", "what": "unauthenticated", "old": "token_expired"} {
		if f := c.Do("refresh", "", obj{"token": token}); f.Error == nil || f.Error.Code != code {
			t.Errorf("%s: %s", token, f.Raw)
		}
	}
	none := gatewaytest.Dial(t, r.addr)
	none.Do("hello", "", obj{"proto": 1, "token": "nochat"})
	if f := none.Do("follow", "s1", nil); f.Error == nil || f.Error.Code != "forbidden" {
		t.Errorf("without the scope chat: %s", f.Raw)
	}
}

// What breaks RFC 6455 is answered by the writer, with 1002, whatever else is going on.
// PROTOCOL.md, rule 6.3.
func TestFraming(t *testing.T) {
	const mask = "\x00\x00\x00\x00"
	for _, c := range []struct{ name, bytes string }{
		{"1002 a reserved bit", "\xc1\x80" + mask},
		{"an unknown opcode", "\x83\x80" + mask},
		{"an unknown control opcode", "\x8b\x80" + mask},
		{"no mask", "\x81\x02{}"},
		{"a long ping", "\x89\xfe\x00\x7e" + mask + strings.Repeat("x", 126)},
		{"a ping in pieces", "\x09\x80" + mask},
		{"a message within another", "\x01\x81" + mask + "{" + "\x81\x81" + mask + "}"},
		{"a message that has not begun", "\x80\x81" + mask + "}"},
		{"a length of 2^63", "\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00" + mask},
		{"a close of one byte", "\x88\x81" + mask + "\x03"},
		{"a close code that may not be sent", "\x88\x82" + mask + "\x03\xed"},
		{"a close reason that is not UTF-8", "\x88\x83" + mask + "\x03\xe8\xff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t)
			key := r.sessions.Open("s1", "local")
			s := dialRaw(t, r.addr)
			s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
			s.send(1, gatewaytest.Command("follow", "2", "s1", obj{"since": 0}))
			r.sessions.Say(key, 100)
			if _, err := s.conn.Write([]byte(c.bytes)); err != nil {
				t.Fatal(err)
			}
			op, payload := s.read()
			for ; op != 8; op, payload = s.read() {
			}
			if code := binary.BigEndian.Uint16(payload); code != 1002 {
				t.Errorf("closed with %d %s", code, payload[2:])
			}
			_ = s.conn.Close()
			waitFor(t, func() bool { return r.metric("parley_gateway_closes_total", "code", "1002") == 1 })
		})
	}
}

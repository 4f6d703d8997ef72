package gateway

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/metrics"
)

// running is a server with an address, and how many connections it has open.
func running(t *testing.T, change func(*Config)) (s *Server, sessions *gatewaytest.Sessions, open func() int32) {
	t.Helper()
	m := metrics.NewGateway(metrics.NewRegistry())
	hub := fanout.NewHub(m)
	sessions = gatewaytest.NewSessions(hub)
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	change(&cfg)
	s, err := New(cfg, Deps{Sessions: sessions, Hub: hub, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		sessions.Close()
	})
	return s, sessions, s.app.Server().GetOpenConnectionsCount
}

// eventually waits until what is asked for holds. Only a failing test waits long.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond) // nobody tells that a connection has gone
	defer look.Stop()
	for end := time.After(20 * time.Second); !holds(); {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

// mute connects, sends text and reads nothing.
func mute(t *testing.T, s *Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.main.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	go func() { _, _ = c.Write([]byte(text)) }() // the server may stop reading
	return c
}

// An answer that nobody reads is kept for as long as its size allows, not for ever.
func TestUnreadAnswerEndsItsConnection(t *testing.T) {
	s, sessions, open := running(t, func(c *Config) {
		c.Times.Write = 50 * time.Millisecond
		c.Limits.WriteBytesPerSecond = 64 << 20
	})
	key := sessions.Open("s1", "local")
	sessions.Say(key, 200)
	sessions.Do(func() {})
	const host = " HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, path := range map[string]string{"document": "/asyncapi.yaml", "page of events": "/api/sessions/s1/events?limit=200", "error": "/nothing"} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			mute(t, s, strings.Repeat("GET "+path+host, 40_000))
			eventually(t, "the connection is open", func() bool { return open() > 0 })
			eventually(t, fmt.Sprintf("the connection with the unread %s is closed", name), func() bool { return open() == 0 })
		})
	}
}

// The time that a slow client has for an answer grows with its size, and an old
// deadline does not meet the next answer.
func TestSlowReaderGetsItsWholeAnswer(t *testing.T) {
	s, _, open := running(t, func(c *Config) { c.Times.Write = 100 * time.Millisecond })
	c := mute(t, s, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	eventually(t, "it is open", func() bool { return open() == 1 })
	buf := make([]byte, 4096)
	if _, err := c.Read(buf); err != nil {
		t.Fatal(err)
	}
	<-time.After(150 * time.Millisecond) // the deadline of the first answer has passed
	for _, next := range []string{
		"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
		"{}",
	} {
		if _, err := c.Write([]byte(next)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(buf)
		if err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 ") {
			t.Fatalf("%q was answered %q %v", next, buf[:n], err)
		}
	}
	<-time.After(150 * time.Millisecond) // and that of the last one
	if _, err := c.Write([]byte("NONSENSE\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 400") {
		t.Fatalf("nonsense was answered %q %v", buf[:n], err)
	}
}

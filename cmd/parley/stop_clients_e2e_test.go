package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// raw is a TCP connection on which something was said; small keeps what the client's
// side takes without being read low.
func (l *live) raw(text string, small bool) net.Conn {
	l.t.Helper()
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	if small {
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	}
	l.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "HOST", l.addr)); err != nil {
		l.t.Logf("write: %v", err)
	}
	return conn
}

// begun reads the head of an answer.
func begun(t *testing.T, conn net.Conn, status int) *http.Response {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || r.StatusCode != status {
		t.Fatalf("%v: %v", r, err)
	}
	return r
}

// Whatever clients do, the process ends within drain.timeout, which is what open model
// calls may take, and five seconds; and with 0, because nothing has gone wrong.
func TestClientsDoNotHoldTheEnd(t *testing.T) {
	const upgrade = "GET /ws HTTP/1.1\r\nHost: HOST\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	for name, clients := range map[string]func(l *live, session string) (after func()){
		"a message that is waited for": func(l *live, s string) func() {
			body := `{"text":"/wait 60s\n/say hi"}`
			u := l.user()
			u.follow(s, 0)
			conn := l.raw(fmt.Sprintf("POST /api/sessions/%s/messages?wait=5m HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s, len(body), body), false)
			u.until(is("step_started"))
			return func() {
				r := begun(l.t, conn, http.StatusAccepted)
				var receipt struct{ Message, Disposition string }
				if err := json.NewDecoder(r.Body).Decode(&receipt); err != nil || receipt.Message == "" || receipt.Disposition != "started" {
					l.t.Errorf("it was told %+v: %v", receipt, err)
				}
			}
		},
		"answers that nobody reads": func(l *live, _ string) func() {
			for range 5 {
				l.raw(strings.Repeat("GET /asyncapi.yaml HTTP/1.1\r\nHost: HOST\r\n\r\n", 400), true)
			}
			return nil
		},
		"half a request": func(l *live, _ string) func() {
			l.raw("GET / HTTP/1.1\r\nHo", false)
			l.raw("POST /api/sessions HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{", false)
			return nil
		},
		"a connection that is not used": func(l *live, _ string) func() { l.raw("", false); return nil },
		"a connection that was used": func(l *live, _ string) func() {
			begun(l.t, l.raw("GET /livez HTTP/1.1\r\nHost: HOST\r\n\r\n", false), http.StatusOK)
			return nil
		},
		"a thousand sockets that say nothing any more": func(l *live, _ string) func() {
			for range 1000 {
				begun(l.t, l.raw(upgrade, true), http.StatusSwitchingProtocols)
			}
			return nil
		},
		"a thousand streams that nobody reads": func(l *live, s string) func() {
			for range 1000 {
				begun(l.t, l.raw("GET /api/sessions/"+s+"/stream HTTP/1.1\r\nHost: HOST\r\n\r\n", true), http.StatusOK)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := spawn(t, t.TempDir(), "--set", "drain.timeout=1s", "--set", "gateway.close_timeout=2s", "--set", "gateway.drain_spread=5s",
				"--set", "gateway.hello_timeout=10m", "--set", "limits.connections_before_hello=0", "--set", "limits.connections_before_hello_per_address=0",
				"--set", "limits.connections_per_address=0")
			s := l.user().create(nil)
			after := clients(l, s)
			began := time.Now()
			if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var code int
			select {
			case code = <-l.ended:
			case <-time.After(patience):
				t.Fatal("the server does not end")
			}
			took := time.Since(began)
			if code != exitOK || took > 6*time.Second {
				t.Errorf("it ended after %v with %d: %s", took, code, l.err)
			}
			if strings.Contains(l.err.String(), "parley: ") {
				t.Errorf("it complained: %s", l.err)
			}
			t.Logf("it took %v", took)
			if after != nil {
				after()
			}
		})
	}
}

// A server of tools that hears neither the end of its input nor SIGTERM is killed while
// clients part, not after them.
func TestToolServersDoNotHoldTheEnd(t *testing.T) {
	config := write(t, `[[mcp]]
name = "deaf"
connect_timeout = "500ms"
command = "sh"
args = ["-c", "trap '' TERM; while :; do read -r line || sleep 1; done"]
`)
	l := spawn(t, t.TempDir(), "--config", config, "--set", "drain.timeout=1s")
	l.raw("GET / HTTP/1.1\r\nHo", false)
	began := time.Now()
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-l.ended:
		if took := time.Since(began); code != exitOK || took > 6*time.Second {
			t.Errorf("it ended after %v with %d: %s", took, code, l.err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
	t.Logf("it took %v", time.Since(began))
}

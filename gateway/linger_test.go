package gateway_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
)

// A client that sends its whole body before it reads hears why it was refused, and not that
// the connection was reset: on every route, with and without a Content-Length, under TLS too.
// PROTOCOL.md, rule 8.3a.
func TestRefusedBodiesAreAnswered(t *testing.T) {
	cert, key, pool := certificate(t)
	for _, secured := range []bool{false, true} {
		r := start(t, withAuth(credentials{}), func(c *gateway.Config, _ *gateway.Deps) {
			c.Limits.UploadsAtOnce = 1
			if secured {
				c.TLS.CertFile, c.TLS.KeyFile = cert, key
			}
		})
		dial := func() net.Conn {
			conn, err := net.Dial("tcp", r.addr)
			if err == nil && secured {
				conn = tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(patience))
			return conn
		}
		head := func(path, name, kind, length string) string {
			return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\n%s\r\nAuthorization: Bearer %s\r\n", path, r.addr, kind, length, name)
		}
		r.sessions.Play(func(w *machinetest.World) {
			w.Do(conversation.SessionKey{Tenant: acme, Session: "s1"}, conversation.Create{Owner: "ann"})
		})
		const size = 11 << 20
		sized, chunked := fmt.Sprint("Content-Length: ", size), "Transfer-Encoding: chunked"
		refused := func(what, head, status string) {
			t.Helper()
			for range 4 {
				conn := dial()
				body := strings.Repeat("x", size)
				if strings.Contains(head, "chunked") {
					body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
				}
				_, err := io.WriteString(conn, head+"\r\n"+body)
				answer, bad := http.ReadResponse(bufio.NewReader(conn), nil)
				if err := errors.Join(err, bad); err != nil {
					t.Errorf("TLS %v: %s: %v", secured, what, err)
					return
				}
				text, err := io.ReadAll(answer.Body)
				if !strings.HasPrefix(answer.Status, status) || err != nil || !strings.Contains(string(text), `"code"`) {
					t.Errorf("TLS %v: %s: %s %s %v", secured, what, answer.Status, text, err)
				}
			}
		}
		refused("a file that is too large", head("/api/sessions/s1/blobs", "owner", "text/plain", sized), "413")
		refused("a file that grows too large", head("/api/sessions/s1/blobs", "owner", "text/plain", chunked), "413")
		refused("nobody's session", head("/api/sessions/nosuch/blobs", "owner", "text/plain", sized), "404")
		refused("nobody", head("/api/sessions/s1/blobs", "nobody", "text/plain", sized), "401")
		refused("another route", head("/api/sessions/s1/messages", "owner", "application/json", sized), "413")
		refused("no route", head("/nothing", "owner", "application/json", sized), "413")
		slow := dial()
		if _, err := io.WriteString(slow, head("/api/sessions/s1/blobs", "owner", "text/plain", "Content-Length: 4")+"Expect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(slow).ReadString('\n'); err != nil || !strings.Contains(line, "100") { // it has its place
			t.Fatalf("%q, %v", line, err)
		}
		refused("no place", head("/api/sessions/s1/blobs", "owner", "text/plain", sized), "503")
	}
}

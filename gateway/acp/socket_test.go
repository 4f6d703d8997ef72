package acp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"parley/gateway"
	"parley/gateway/service"

	"github.com/coder/websocket"
)

const upgrade = "GET /acp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDAwMDAwMDAwMDAwMDAwMA==\r\n\r\n"

// tcp is a connection of the system's.
func (r *rig) tcp() *net.TCPConn {
	r.t.Helper()
	c, err := net.DialTimeout("tcp", r.addr, patience)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn)
}

// Whoever ends the socket, the server closes the connection of the system's: a client that only
// waits for that would hold it for ever.
func TestConnectionIsClosed(t *testing.T) {
	r := begin(t)
	for name, frame := range map[string]string{
		"the client closes": "\x88\x80\x00\x00\x00\x00",
		"no text":           "\x82\x81\x00\x00\x00\x00x",
		"no frame":          "\xff\xff\xff\xff",
		"the client ends":   "",
	} {
		c := r.tcp()
		_, _ = io.WriteString(c, upgrade+frame)
		if frame == "" {
			_ = c.CloseWrite()
		}
		in := bufio.NewReader(c)
		if response, err := http.ReadResponse(in, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(name, response, err)
		}
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client that is gone before it has the answer to its handshake has no place any more.
func TestPlaceOfAClientThatIsGone(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.Limits.StreamsPerAddress, c.Limits.RequestsPerSecondPerAddress = 1, 0
		c.Times.Write = 100 * time.Millisecond
	})
	for range 200 {
		c := r.tcp()
		_ = c.SetLinger(0) // the connection is reset: the answer cannot be written
		_, _ = io.WriteString(c, upgrade)
		_ = c.Close()
	}
	for began := time.Now(); ; {
		c, _, err := dial(r.addr, "")
		if err == nil {
			_ = c.CloseNow()
			return
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}

// watched are keys that may be taken back.
type watched struct {
	keyring
	ended chan func()
}

func (w watched) Watch(_ *service.Principal, ended func()) func() {
	w.ended <- ended
	return func() {}
}

// Who goes on talking when the key was taken back is not heard, and is cut off all the same.
func TestTalksOnWithoutAKey(t *testing.T) {
	w := watched{ended: make(chan func(), 1)}
	r := begin(t, withKeys, func(c *gateway.Config, d *gateway.Deps) {
		w.keyring = d.Authenticator.(keyring)
		for _, p := range w.keyring {
			p.Credential = "k"
		}
		d.Authenticator, c.Times.Close = w, 50*time.Millisecond
	})
	c := r.editor("ann", "{}")
	(<-w.ended)()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for c.ws.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)) == nil {
		if err := c.ws.Write(ctx, websocket.MessageText, []byte(`{"jsonrpc":"2.0","method":"x"}`)); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("the connection is open")
	}
}

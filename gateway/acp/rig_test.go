package acp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/waystest"

	"github.com/coder/websocket"
)

func TestMain(m *testing.M) { waystest.Main(m) }

const patience = waystest.Patience

// rig is a running server with a stand-in for the engine: the test plays the model.
type rig struct {
	*waystest.Rig
	t        testing.TB
	sessions *gatewaytest.Sessions
	addr     string
}

type setup = waystest.Setup

func begin(t testing.TB, changes ...setup) *rig {
	t.Helper()
	bare := func(c *gateway.Config, d *gateway.Deps) {
		c.Limits.CommandsPerSecond, d.Files = 0, nil
	}
	s := waystest.Begin(t, append([]setup{bare}, changes...)...)
	return &rig{s, t, s.Sessions, s.Addr}
}

type keyring = waystest.Keyring

var withKeys = waystest.WithKeys

// client is an editor, by hand.
type client struct {
	t    testing.TB
	ws   *websocket.Conn
	held []string // frames that were read while an answer was waited for
	n    int
}

func dial(addr, token string) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return websocket.Dial(ctx, "ws://"+addr+"/acp", &websocket.DialOptions{HTTPHeader: header})
}

// connect is a client that has said nothing.
func (r *rig) connect(token string) *client {
	r.t.Helper()
	ws, _, err := dial(r.addr, token)
	if err != nil {
		r.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{t: r.t, ws: ws}
}

// editor is a client that has said initialize, under the name "ed".
func (r *rig) editor(token string, capabilities string) *client {
	r.t.Helper()
	c := r.connect(token)
	c.write(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":` + capabilities + `,"_meta":{"parley":{"client":"ed"}}}}`)
	c.until(`"id":"hello"`)
	return c
}

const forms = `{"elicitation":{"form":{}}}`

func (c *client) write(text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read() string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, b, err := c.ws.Read(ctx)
	if err != nil {
		c.t.Fatalf("%v, behind %s", err, strings.Join(c.held, "\n"))
	}
	if !json.Valid(b) {
		c.t.Fatalf("no JSON: %s", b)
	}
	return string(b)
}

// until reads until a frame has a text, and gives back all that was read.
func (c *client) until(text string) []string {
	c.t.Helper()
	c.held = nil
	for {
		frame := c.read()
		c.held = append(c.held, frame)
		if strings.Contains(frame, text) {
			return c.held
		}
	}
}

// do sends a request and gives back its answer, and what came before it.
func (c *client) do(method, params string) (answer string, before []string) {
	c.t.Helper()
	c.n++
	id := `"id":` + string(rune('0'+c.n))
	c.write(`{"jsonrpc":"2.0",` + id + `,"method":"` + method + `","params":` + params + `}`)
	frames := c.until(id + ",")
	return frames[len(frames)-1], frames[:len(frames)-1]
}

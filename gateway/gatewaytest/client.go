package gatewaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// patience is the time that a test waits for a thing that should be there at once. It
// only bounds a failing test; no passing test waits for it.
const patience = 2 * time.Minute

// Frame is a frame of the server.
type Frame struct {
	Type    string          `json:"type"`
	Re      *string         `json:"re"`
	Session string          `json:"session"`
	Seq     uint64          `json:"seq"`
	After   *uint64         `json:"after"`
	TS      string          `json:"ts"`
	Task    string          `json:"task"`
	Data    json.RawMessage `json:"data"`
	Error   *struct {
		Code         string `json:"code"`
		Message      string `json:"message"`
		Retryable    bool   `json:"retryable"`
		RetryAfterMS int64  `json:"retry_after_ms"`
	} `json:"error"`
	Raw []byte `json:"-"`
}

// Get reads a member of the frame's data as text; "" if it is not there.
func (f Frame) Get(name string) string {
	var data map[string]json.RawMessage
	if json.Unmarshal(f.Data, &data) != nil {
		return ""
	}
	var s string
	if json.Unmarshal(data[name], &s) == nil {
		return s
	}
	return string(data[name])
}

// Client is a WebSocket client that knows the protocol.
type Client struct {
	WS *websocket.Conn

	t    testing.TB
	said *Listener // checks every frame with asyncapi.yaml
	next int
	held []Frame // read while waiting for something else
}

// Dial connects to the server at address and asks for parley.v1.
func Dial(t testing.TB, address string) *Client {
	t.Helper()
	c, _, err := TryDial(t, address, nil)
	if err != nil {
		t.Fatalf("dial %s: %v", address, err)
	}
	return c
}

// TryDial connects with headers of one's own and gives back what went wrong.
func TryDial(t testing.TB, address string, header http.Header) (*Client, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, response, err := websocket.Dial(ctx, "ws://"+address+"/ws", &websocket.DialOptions{
		Subprotocols: []string{"parley.v1"}, HTTPHeader: header,
		HTTPClient: &http.Client{Transport: Documents(t).Transport(t, http.DefaultTransport)},
	})
	if err != nil {
		return nil, response, err
	}
	return Over(t, ws), response, nil
}

// Over is a client on a socket that is open already.
func Over(t testing.TB, ws *websocket.Conn) *Client {
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &Client{WS: ws, t: t, said: Documents(t).Listen(t)}
}

// Connect dials and says hello.
func Connect(t testing.TB, address string, caps ...string) *Client {
	t.Helper()
	c := Dial(t, address)
	if f := c.Do("hello", "", map[string]any{"proto": 1, "caps": caps}); f.Type != "ok" {
		t.Fatalf("hello was answered %s", f.Raw)
	}
	return c
}

// Write sends bytes as one text frame.
func (c *Client) Write(text string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c.said.Sent([]byte(text))
	if err := c.WS.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// Send sends a command and returns its id.
func (c *Client) Send(kind, session string, data any) string {
	c.t.Helper()
	c.next++
	id := strconv.Itoa(c.next)
	c.Write(Command(kind, id, session, data))
	return id
}

// Command is a command's text; an empty id or session is left out.
func Command(kind, id, session string, data any) string {
	frame := map[string]any{"type": kind}
	if id != "" {
		frame["id"] = id
	}
	if session != "" {
		frame["session"] = session
	}
	if data != nil {
		frame["data"] = data
	}
	b, err := json.Marshal(frame)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return string(b)
}

// Do sends a command and waits for its answer. Other frames are kept for Read.
func (c *Client) Do(kind, session string, data any) Frame {
	c.t.Helper()
	id := c.Send(kind, session, data)
	return c.Until(func(f Frame) bool { return f.Re != nil && *f.Re == id })
}

// Until reads until a frame fits, and keeps the others for Read.
func (c *Client) Until(fits func(Frame) bool) Frame {
	c.t.Helper()
	for i, f := range c.held {
		if fits(f) {
			c.held = append(c.held[:i], c.held[i+1:]...)
			return f
		}
	}
	for {
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("read: %v", err)
		}
		if fits(f) {
			return f
		}
		c.held = append(c.held, f)
	}
}

// Read is the next frame.
func (c *Client) Read() Frame {
	c.t.Helper()
	f, err := c.TryRead()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return f
}

// TryRead is the next frame, or why there is none.
func (c *Client) TryRead() (Frame, error) {
	if len(c.held) > 0 {
		f := c.held[0]
		c.held = c.held[1:]
		return f, nil
	}
	return c.read()
}

func (c *Client) read() (Frame, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, b, err := c.WS.Read(ctx)
	if err != nil {
		return Frame{}, err
	}
	if kind != websocket.MessageText {
		return Frame{}, fmt.Errorf("a binary frame")
	}
	c.said.Received(b)
	f := Frame{Raw: b}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("frame %s: %w", b, err)
	}
	return f, nil
}

// Closed reads to the end and returns the close code and what came before it;
// -1 when the connection broke without a close frame.
func (c *Client) Closed() (code int, reason string, before []Frame) {
	c.t.Helper()
	for {
		f, err := c.TryRead()
		if err == nil {
			before = append(before, f)
			continue
		}
		var closed websocket.CloseError
		if errors.As(err, &closed) {
			return int(closed.Code), closed.Reason, before
		}
		return -1, err.Error(), before
	}
}

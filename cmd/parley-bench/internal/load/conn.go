package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fasthttp/websocket"

	"parley/cmd/parley-bench/internal/frame"
)

// Frame is a frame of the server.
type Frame = frame.Frame

// Conn is one socket of protocol v1. It is used by one goroutine at a time
// and does as little as it can: it shares the machine with the server that it measures.
type Conn struct {
	Model string // of the server's default agent, as hello's answer names it
	Node  string // the server, by its name in a cluster

	ws    *websocket.Conn
	next  int
	frame Frame  // the last one read
	in    []byte // its bytes
	out   []byte // the last command's
}

// Refusal is an error answer of the server.
type Refusal struct {
	Code, Message string
	Retryable     bool
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

var dialer = websocket.Dialer{
	HandshakeTimeout: 30 * time.Second,
	Subprotocols:     []string{"parley.v1"},
	ReadBufferSize:   4096,
	WriteBufferSize:  1024,
}

// Dial connects and says hello.
func Dial(addr string) (*Conn, error) { return DialWithin(addr, 0) }

// DialWithin does it within a time, as one does who knows other servers; 0 = any time.
// caps are what the client says that it can do.
func DialWithin(addr string, d time.Duration, caps ...string) (*Conn, error) {
	dialer := dialer
	if d > 0 {
		dialer.HandshakeTimeout = d
	}
	ws, response, err := dialer.Dial("ws://"+addr+"/ws", http.Header{})
	if err != nil {
		if response != nil {
			return nil, fmt.Errorf("connect: %w (%s)", err, response.Status)
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	c := &Conn{ws: ws}
	if d > 0 {
		if err := ws.SetReadDeadline(time.Now().Add(d)); err != nil {
			ws.Close()
			return nil, err
		}
	}
	can := ""
	if len(caps) > 0 {
		can = `,"caps":["` + strings.Join(caps, `","`) + `"]`
	}
	data, err := c.Ask("hello", "", `{"proto":1,"client":{"name":"parley-bench","version":"1"}`+can+`}`)
	if err != nil {
		ws.Close()
		return nil, fmt.Errorf("hello: %w", err)
	}
	var hello struct{ Model, Node string }
	if err := errors.Join(json.Unmarshal(data, &hello), ws.SetReadDeadline(time.Time{})); err != nil {
		ws.Close()
		return nil, fmt.Errorf("hello: answer %s", data)
	}
	c.Model, c.Node = hello.Model, hello.Node
	return c, nil
}

// Close drops the connection, without a closing handshake.
func (c *Conn) Close() { c.ws.Close() }

// SetReadDeadline ends reads that wait until then.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.ws.SetReadDeadline(t) }

// CloseCode is the code with which the server closed the connection that gave
// err; 0 if it did not.
func CloseCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return 0
}

// Write sends a command and returns the id of its answer.
func (c *Conn) Write(typ, session, data string) (id string, err error) {
	c.next++
	id = strconv.Itoa(c.next)
	b := append(c.out[:0], `{"type":"`...)
	b = append(b, typ...)
	b = append(b, `","id":"`...)
	b = append(b, id...)
	if session != "" {
		b = append(b, `","session":"`...)
		b = append(b, session...)
	}
	b = append(b, `","data":`...)
	b = append(b, data...)
	b = append(b, '}')
	c.out = b
	return id, c.ws.WriteMessage(websocket.TextMessage, b)
}

// Read waits for the next frame. It is valid until the next read.
func (c *Conn) Read() (*Frame, error) {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return nil, err
	}
	if kind != websocket.TextMessage {
		return nil, fmt.Errorf("a frame of kind %d", kind)
	}
	if c.in, err = readInto(c.in[:0], r); err != nil {
		return nil, err
	}
	if err := c.frame.Scan(c.in); err != nil {
		return nil, fmt.Errorf("%w: %s", err, c.in)
	}
	return &c.frame, nil
}

// readInto appends all of r to b. The library's ReadMessage allocates for each
// frame, and the garbage collection would be measured along with the server.
func readInto(b []byte, r io.Reader) ([]byte, error) {
	for {
		b = slices.Grow(b, 512)
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// Answer reads until the answer to id and hands every event before it to seen.
func (c *Conn) Answer(id string, seen func(*Frame) error) (json.RawMessage, error) {
	for {
		f, err := c.Read()
		if err != nil {
			return nil, err
		}
		switch {
		case f.Re == nil:
			if seen != nil {
				if err := seen(f); err != nil {
					return nil, err
				}
			}
		case string(f.Re) != id:
			return nil, fmt.Errorf("an answer to %q while waiting for %q", f.Re, id)
		case string(f.Type) == "ok":
			return f.Data, nil
		default:
			r := &Refusal{}
			if err := json.Unmarshal(f.Err, r); err != nil {
				return nil, fmt.Errorf("an unreadable error: %s", f.Raw)
			}
			return nil, r
		}
	}
}

// Ask sends a command and waits for its answer; events before it are dropped.
func (c *Conn) Ask(typ, session, data string) (json.RawMessage, error) {
	id, err := c.Write(typ, session, data)
	if err != nil {
		return nil, err
	}
	return c.Answer(id, nil)
}

// Create opens a session and returns its id.
func (c *Conn) Create() (string, error) {
	data, err := c.Ask("create", "", `{}`)
	if err != nil {
		return "", fmt.Errorf("create: %w", err)
	}
	var created struct{ Session string }
	if err := json.Unmarshal(data, &created); err != nil || created.Session == "" {
		return "", fmt.Errorf("create: answer %s", data)
	}
	return created.Session, nil
}

// createWaiting opens a session whose task waits for an hour, and a message that is
// queued behind it.
func (c *Conn) createWaiting() (session, message string, err error) {
	if session, err = c.Create(); err != nil {
		return "", "", err
	}
	if _, err = c.Ask("send", session, `{"client_msg_id":"first","text":"/wait 1h\n/say x"}`); err != nil {
		return "", "", err
	}
	data, err := c.Ask("send", session, `{"client_msg_id":"waits","text":"/say x","mode":"queue"}`)
	if err != nil {
		return "", "", err
	}
	var sent struct{ Message, Disposition string }
	if err := json.Unmarshal(data, &sent); err != nil || sent.Disposition != "queued" {
		return "", "", fmt.Errorf("send: answer %s, want one that is queued", data)
	}
	return session, sent.Message, nil
}

// answers reads until the answer to id; those before it must be good.
func (c *Conn) answers(id string) error {
	for {
		f, err := c.Read()
		switch {
		case err != nil:
			return err
		case string(f.Type) == "error":
			return fmt.Errorf("refused: %s", f.Raw)
		case string(f.Re) == id:
			return nil
		}
	}
}

// follow follows from since and reads until synced. It returns the events that
// came and the head.
func (c *Conn) follow(session string, since uint64) (events int, head uint64, err error) {
	return c.followAt(session, `{"since":`+strconv.FormatUint(since, 10)+`}`)
}

// followTail follows and is shown the last event only.
func (c *Conn) followTail(session string) error {
	_, _, err := c.followAt(session, `{"tail":1}`)
	return err
}

func (c *Conn) followAt(session, from string) (events int, head uint64, err error) {
	id, err := c.Write("follow", session, from)
	if err != nil {
		return 0, 0, err
	}
	if _, err := c.Answer(id, nil); err != nil {
		return 0, 0, fmt.Errorf("follow: %w", err)
	}
	for {
		f, err := c.Read()
		if err != nil {
			return 0, 0, err
		}
		if f.Seq > 0 {
			events++
			head = f.Seq
		}
		if string(f.Type) == "synced" {
			return events, head, nil
		}
	}
}

// turn sends a message and reads until its task is COMPLETE. The socket must
// follow the session. It returns the time until the response, and how many
// events came.
func (c *Conn) turn(session, clientMsgID, text string) (took time.Duration, events int, err error) {
	began := time.Now()
	if _, err := c.Write("send", session, `{"client_msg_id":"`+clientMsgID+`","text":"`+text+`"}`); err != nil {
		return 0, 0, err
	}
	for {
		f, err := c.Read()
		switch {
		case err != nil:
			return 0, events, err
		case string(f.Type) == "error":
			return 0, events, fmt.Errorf("send: %s", f.Raw)
		case f.Seq == 0:
			continue
		}
		events++
		switch string(f.Type) {
		case "response":
			took = time.Since(began)
		case "task_status":
			if f.Ended() {
				return took, events, nil
			}
		}
	}
}

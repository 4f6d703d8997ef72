package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	maxFrame     = 64 << 20 // a message of the server
	dialTimeout  = 20 * time.Second
	writeTimeout = 15 * time.Second
	quiet        = 30 * time.Second // between two pings, and how long an answer to one may take
	maxUnsent    = 1024             // messages that wait for the connection
)

// Address is where a server's socket is: of an address like http://127.0.0.1:8080, or of the socket itself.
func Address(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is no address of a server, such as http://127.0.0.1:8080", server)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	case "ws", "wss":
	default:
		return "", fmt.Errorf("the address %q must begin with http, https, ws or wss", server)
	}
	if u.Path = strings.TrimSuffix(u.Path, "/"); !strings.HasSuffix(u.Path, "/acp") {
		u.Path += "/acp"
	}
	return u.String(), nil
}

// link is one connection.
type link struct {
	ws     *websocket.Conn
	out    chan []byte
	ctx    context.Context // ends with the link
	cancel context.CancelFunc
}

// refusal is the server's, or that of what stands before it.
type refusal struct {
	text  string
	auth  bool          // another key is needed
	final bool          // it will say no again
	after time.Duration // when to come back; 0 = it has not said
}

func (r *refusal) Error() string { return r.text }

// dial connects.
func dial(ctx context.Context, address, token string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	o := &websocket.DialOptions{HTTPHeader: http.Header{}}
	if token != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	ws, response, err := websocket.Dial(ctx, address, o)
	if err != nil {
		return nil, refused(response, err)
	}
	ws.SetReadLimit(maxFrame)
	l := &link{ws: ws, out: make(chan []byte, maxUnsent)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l, nil
}

func refused(response *http.Response, err error) error {
	if response == nil || response.StatusCode == http.StatusSwitchingProtocols {
		return err
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if response.Body != nil {
		if body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10)); err == nil {
			_ = json.Unmarshal(body, &problem)
		}
	}
	r := &refusal{text: "the server answered " + response.Status}
	if problem.Detail != "" {
		r.text = "the server says: " + problem.Detail
	}
	status := response.StatusCode
	r.auth = status == http.StatusUnauthorized || status == http.StatusForbidden
	r.final = status < 500 && status != http.StatusTooManyRequests
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		r.after = time.Duration(seconds) * time.Second
	}
	return r
}

// read gives what the server says to take, until the link ends.
func (l *link) read(take func([]byte)) error {
	defer l.end()
	for {
		kind, b, err := l.ws.Read(l.ctx)
		switch {
		case err != nil:
			return err
		case kind != websocket.MessageText:
			return errors.New("the server has sent what is no text")
		}
		take(b)
	}
}

// write writes what is sent, and asks whether the server is there.
func (l *link) write() {
	defer l.end()
	pings := time.NewTicker(quiet)
	defer pings.Stop()
	for {
		select {
		case b := <-l.out:
			if l.bounded(writeTimeout, func(ctx context.Context) error { return l.ws.Write(ctx, websocket.MessageText, b) }) != nil {
				return
			}
		case <-pings.C:
			if l.bounded(quiet, l.ws.Ping) != nil {
				return
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// tooMuch is true for the end of a link to which something too long was sent.
func tooMuch(err error) bool { return websocket.CloseStatus(err) == websocket.StatusMessageTooBig }

func (l *link) bounded(most time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(l.ctx, most)
	defer cancel()
	return do(ctx)
}

// send sends a message; one that the server does not take in time ends the link.
func (l *link) send(b []byte) {
	select {
	case l.out <- b:
	default:
		l.end()
	}
}

func (l *link) end() {
	l.cancel()
	_ = l.ws.CloseNow()
}

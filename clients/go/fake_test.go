package parley

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"parley/clients/go/internal/pace"
)

// server is a server of the tests: they play its side of each connection, over pipes
// in memory, so that a bubble of testing/synctest has all of it.
type server struct {
	t     *testing.T
	conns chan net.Conn
	peers chan *peer
	http  *http.Server

	refuse func(w http.ResponseWriter) bool // of the upgrade; nil = no
	down   func() bool                      // nobody listens
}

// peer is the server's side of a connection.
type peer struct {
	t  *testing.T
	ws *websocket.Conn
}

type sentFrame struct {
	Type, ID, Session string
	Data              map[string]any
}

func newServer(t *testing.T) *server {
	s := &server{t: t, conns: make(chan net.Conn), peers: make(chan *peer)}
	s.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.refuse != nil && s.refuse(w) {
			return
		}
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{subprotocol}})
		if err != nil {
			t.Error(err)
			return
		}
		s.peers <- &peer{t, ws}
	})}
	go s.http.Serve(s)
	t.Cleanup(func() { s.http.Close() })
	return s
}

func (s *server) Accept() (net.Conn, error) {
	c, ok := <-s.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (s *server) Close() error   { close(s.conns); return nil }
func (s *server) Addr() net.Addr { return &net.TCPAddr{} }

// options make a client come to the server.
func (s *server) options() Options {
	return Options{HTTP: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if s.down != nil && s.down() {
			return nil, fmt.Errorf("nobody listens")
		}
		here, there := net.Pipe()
		select {
		case s.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}}}
}

// client connects and stays for the test.
func (s *server) client(o Options) *Client {
	s.t.Helper()
	c, err := Connect("http://parley.test", o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

const limitsJSON = `{"commands_per_second":20,"commands_burst":40,"frame_bytes":65536}`

// accept takes the next connection, with hello.
func (s *server) accept() *peer {
	s.t.Helper()
	p := <-s.peers
	f := p.expect("hello")
	p.write(`{"type":"ok","re":%q,"data":{"conn":"c1","proto":1,"user":"local","heartbeat_ms":25000,"limits":%s}}`, f.ID, limitsJSON)
	return p
}

func (p *peer) read() (sentFrame, error) {
	_, b, err := p.ws.Read(context.Background())
	if err != nil {
		return sentFrame{}, err
	}
	var f sentFrame
	return f, json.Unmarshal(b, &f)
}

func (p *peer) expect(typ string) sentFrame {
	p.t.Helper()
	f, err := p.read()
	if err != nil || f.Type != typ {
		p.t.Fatalf("a %s was expected, it is %+v, %v", typ, f, err)
	}
	return f
}

func (p *peer) write(format string, args ...any) {
	p.t.Helper()
	if err := p.ws.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		p.t.Logf("write: %v", err)
	}
}

func (p *peer) ok(id, data string) {
	p.t.Helper()
	p.write(`{"type":"ok","re":%q,"data":%s}`, id, data)
}

func (p *peer) refuse(id string, code Code, retryable bool, afterMS int) {
	p.t.Helper()
	after := ""
	if afterMS > 0 {
		after = fmt.Sprintf(`,"retry_after_ms":%d`, afterMS)
	}
	p.write(`{"type":"error","re":%q,"error":{"code":%q,"message":"no","retryable":%v%s}}`, id, code, retryable, after)
}

func (p *peer) followed(id string, log string, head, first int, resumed bool, reason string) {
	p.t.Helper()
	if reason != "" {
		reason = fmt.Sprintf(`,"reason":%q`, reason)
	}
	p.ok(id, fmt.Sprintf(`{"session":"s1","log":%q,"head":%d,"first":%d,"resumed":%v%s,"state":{}}`, log, head, first, resumed, reason))
}

// event sends a durable event.
func (p *peer) event(seqs ...int) {
	p.t.Helper()
	for _, seq := range seqs {
		p.write(`{"type":"context_cleared","session":"s1","seq":%d,"ts":"2026-11-21T08:30:05.007Z","data":{"by":"ann"}}`, seq)
	}
}

// beat sends heartbeats until the test ends.
func (p *peer) beat(t *testing.T) {
	for pace.Wait(t.Context(), 20*time.Second) == nil {
		p.write(`{"type":"hb","data":{"ts":"2026-11-21T08:30:05.007Z"}}`)
	}
}

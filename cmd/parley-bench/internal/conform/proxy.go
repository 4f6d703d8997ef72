package conform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fasthttp/websocket"
)

// fault is what the proxy does wrong. Its functions are called one at a time; nil = as a
// proxy should.
type fault struct {
	open func(p *proxy, n int) bool // of the nth connection; false = it is cut before it begins
	hang func(p *proxy, n int) bool // true = its request to upgrade gets no answer
	up   func(l *link, m message) []message
	down func(l *link, m message) []message
	cut  bool // each frame goes to the client in small fragments
}

const pongWait = 5 * time.Second // for the answer to a ping of the WebSocket

// proxy stands between a client and the server, and notes what comes by.
type proxy struct {
	server string // host:port
	fault  fault
	random *rand.Rand
	http   *http.Server
	at     string

	mu    sync.Mutex
	links []*link
	tries []time.Time // of connections, also of those that were cut
	wrong []string    // what a client must not do
	turn  sync.Mutex  // of the fault
	state map[string]any
}

func newProxy(server string, f fault, seed uint64) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{server: server, fault: f, random: rand.New(rand.NewPCG(seed, seed)), at: listener.Addr().String(), state: make(map[string]any)}
	p.http = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: 10 * time.Second}
	go p.http.Serve(listener) //nolint:errcheck // ends with close
	return p, nil
}

func (p *proxy) close() {
	_ = p.http.Close()
	for _, l := range p.all() {
		l.drop()
	}
}

func (p *proxy) all() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*link(nil), p.links...)
}

// each does something to every connection that there is.
func (p *proxy) each(f func(l *link)) {
	for _, l := range p.all() {
		f(l)
	}
}

func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tries)
}

// mistake notes what a client must not do, once.
func (p *proxy) mistake(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	for _, w := range p.wrong {
		if w == text {
			return
		}
	}
	p.wrong = append(p.wrong, text)
}

// serve takes a connection of the client.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.tries = append(p.tries, time.Now())
	n := len(p.tries)
	p.mu.Unlock()
	p.turn.Lock()
	cut := p.fault.open != nil && !p.fault.open(p, n)
	hung := p.fault.hang != nil && p.fault.hang(p, n)
	p.turn.Unlock()
	if hung {
		<-r.Context().Done() // the client has left, or the case is over
		return
	}
	if cut {
		if h, ok := w.(http.Hijacker); ok {
			if c, _, err := h.Hijack(); err == nil {
				_ = c.Close()
			}
		}
		return
	}
	header := http.Header{}
	if a := r.Header.Get("Authorization"); a != "" {
		header.Set("Authorization", a)
	}
	server, _, err := (&websocket.Dialer{Subprotocols: []string{"parley.v1"}}).Dial("ws://"+p.server+"/ws", header)
	if err != nil {
		http.Error(w, "the server cannot be reached", http.StatusBadGateway)
		return
	}
	size := 4096
	if p.fault.cut {
		size = 17
	}
	client, err := (&websocket.Upgrader{
		Subprotocols: []string{"parley.v1"}, WriteBufferSize: size, CheckOrigin: func(*http.Request) bool { return true },
	}).Upgrade(w, r, nil)
	if err != nil {
		_ = server.Close()
		return
	}
	if client.Subprotocol() != "parley.v1" {
		p.mistake("it does not offer the subprotocol parley.v1")
	}
	l := &link{proxy: p, n: n, client: client, server: server, asked: make(map[string]message), over: make(chan struct{}), pong: make(chan string, 1)}
	client.SetPongHandler(func(data string) error {
		select {
		case l.pong <- data:
		default:
		}
		return nil
	})
	p.mu.Lock()
	p.links = append(p.links, l)
	p.mu.Unlock()
	go l.fromServer()
	l.fromClient()
}

// link is one connection of the client, with its own one to the server.
type link struct {
	proxy          *proxy
	n              int // 1 = the first
	client, server *websocket.Conn
	writing        sync.Mutex
	asked          map[string]message // what the client has asked, by its id; the fault's turn guards it
	shown          int                // frames that the client was given; the fault's turn guards it
	first          bool               // something came from the client
	ending         bool               // it is dropped behind this frame; the fault's turn guards it
	once           sync.Once
	over           chan struct{}
	freezing       sync.Mutex
	frozen         bool
	pong           chan string // what the client has answered a ping with
}

// drop cuts the connection, as a network does.
func (l *link) drop() {
	l.once.Do(func() {
		close(l.over)
		if c, ok := l.client.UnderlyingConn().(*net.TCPConn); ok {
			_ = c.SetLinger(0)
		}
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// end closes the connection with a code, as the server does, and waits for the
// client's own close frame.
func (l *link) end(code int, reason string) {
	l.writing.Lock()
	_ = l.client.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(time.Second))
	l.writing.Unlock()
	time.AfterFunc(2*time.Second, l.drop)
}

// freeze leaves the connection open, and nothing comes or goes any more.
func (l *link) freeze() {
	l.freezing.Lock()
	l.frozen = true
	l.freezing.Unlock()
}

// ping sends a ping of the WebSocket, which is no frame of the protocol, and waits for its answer.
func (l *link) ping() {
	select {
	case <-l.over: // this one was lost before
		return
	default:
	}
	const data = "are you there?"
	_ = l.client.WriteControl(websocket.PingMessage, []byte(data), time.Now().Add(time.Second))
	late := time.NewTimer(pongWait)
	defer late.Stop()
	select {
	case got := <-l.pong:
		if got != data {
			l.proxy.mistake("its pong says %q; it has to say what the ping said, %q", got, data)
		}
	case <-late.C:
		l.proxy.mistake("it answers no WebSocket ping within %v; the server closes such a connection with 4003", pongWait)
	}
}

// stuck waits for the end of a frozen connection.
func (l *link) stuck() bool {
	l.freezing.Lock()
	frozen := l.frozen
	l.freezing.Unlock()
	if frozen {
		<-l.over
	}
	return frozen
}

// say gives a frame to the client.
func (l *link) say(m message) bool {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.client.WriteMessage(websocket.TextMessage, m.raw) == nil
}

func (l *link) fromClient() {
	defer l.drop()
	for {
		kind, raw, err := l.client.ReadMessage()
		if err != nil || l.stuck() {
			return
		}
		m := parse(raw)
		l.look(kind, m)
		l.proxy.turn.Lock()
		if id := m.text("id"); id != "" {
			l.asked[id] = m
		}
		on := []message{m}
		if l.proxy.fault.up != nil {
			on = l.proxy.fault.up(l, m)
		}
		l.proxy.turn.Unlock()
		for _, m := range on {
			if l.server.WriteMessage(kind, m.raw) != nil {
				return
			}
		}
	}
}

// look notes what no client may do.
func (l *link) look(kind int, m message) {
	p := l.proxy
	if kind != websocket.TextMessage || m.object == nil {
		p.mistake("it sent a frame that is no JSON object")
		return
	}
	if !l.first && m.text("type") != "hello" {
		p.mistake("its first frame was %q, not hello", m.text("type"))
	}
	l.first = true
	id, named := m.object["id"]
	if _, ok := id.(string); named && id != nil && !ok {
		p.mistake("the id of its %s is no string: %v", m.text("type"), id)
	}
	p.turn.Lock()
	_, again := l.asked[m.text("id")]
	p.turn.Unlock()
	if again && m.text("id") != "" {
		p.mistake("it used an id twice on one connection")
	}
}

func (l *link) fromServer() {
	defer l.drop()
	for {
		kind, raw, err := l.server.ReadMessage()
		if err != nil {
			var closed *websocket.CloseError
			if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
				l.end(closed.Code, closed.Text)
				<-l.over
			}
			return
		}
		if l.stuck() || kind != websocket.TextMessage {
			return
		}
		m := parse(raw)
		l.proxy.turn.Lock()
		on := []message{m}
		if l.proxy.fault.down != nil {
			on = l.proxy.fault.down(l, m)
		}
		l.shown += len(on)
		ending := l.ending
		l.proxy.turn.Unlock()
		for _, m := range on {
			if !l.say(m) {
				return
			}
		}
		if ending {
			return
		}
	}
}

package discordtest

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/coder/websocket"
)

// gateway is the state of the gateway; the server's mutex guards it. There is one session at
// a time, as there is one bot.
type gateway struct {
	interval  int // of heartbeats, in milliseconds
	deaf      bool
	away      bool
	refuse    websocket.StatusCode // the next one who identifies
	session   string               // "" = there is none that could be resumed
	seq       int64
	events    [][]byte // of the session, the first has seq 1
	out       *outbox  // of the connection that receives; nil = none does
	all       map[*outbox]bool
	intents   int
	identifys int
	resumes   int
	replayed  int // events, to those who resumed
	beats     int
}

// outbox is what a connection has to send.
type outbox struct {
	frames [][]byte
	more   chan struct{} // capacity 1
	stop   context.CancelFunc
	code   websocket.StatusCode // with which it is to be closed; 0 = it is cut
}

func (o *outbox) push(frame []byte) {
	o.frames = append(o.frames, frame)
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// encode is a frame. What tests put into it can always be encoded.
func encode(op int, data any, seq int64, kind string) []byte {
	f := map[string]any{"op": op, "d": data, "s": nil, "t": nil}
	if kind != "" {
		f["s"], f["t"] = seq, kind
	}
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return raw
}

// dispatch sends an event, or keeps it for a session that may be resumed. The caller holds mu.
func (s *Discord) dispatch(kind string, data any) {
	g := &s.gateway
	if g.session == "" {
		return
	}
	g.seq++
	g.events = append(g.events, encode(0, data, g.seq, kind))
	if g.out != nil {
		g.out.push(g.events[len(g.events)-1])
	}
}

// drop ends the connection. The caller holds mu.
func (s *Discord) drop() {
	if o := s.gateway.out; o != nil {
		o.stop()
		s.gateway.out = nil
	}
}

// Disconnect closes the connection with a code; 0 = it is cut off.
func (s *Discord) Disconnect(code int) {
	s.do(func() {
		if o := s.gateway.out; o != nil {
			o.code = websocket.StatusCode(code)
		}
		s.drop()
	})
}

// Forget forgets the session: it cannot be resumed, and what happens until the next one is missed.
func (s *Discord) Forget() { s.do(func() { s.gateway.session, s.gateway.events = "", nil }) }

// Away takes the gateway away, and forgets the session; Back brings it back.
func (s *Discord) Away() {
	s.Forget()
	s.Unreachable()
}

// Unreachable takes the gateway away, and keeps the session.
func (s *Discord) Unreachable() {
	s.do(func() {
		s.gateway.away = true
		s.drop()
	})
}

// Back brings the gateway back.
func (s *Discord) Back() { s.do(func() { s.gateway.away = false }) }

// Refuse has the next one who identifies be closed with a code.
func (s *Discord) Refuse(code int) { s.do(func() { s.gateway.refuse = websocket.StatusCode(code) }) }

// Reconnect asks the bot to connect again.
func (s *Discord) Reconnect() { s.frame(7, nil) }

// Beat asks the bot for a heartbeat.
func (s *Discord) Beat() { s.frame(1, nil) }

// Invalidate says that the session is none, and whether it may be resumed.
func (s *Discord) Invalidate(resumable bool) {
	if !resumable {
		s.Forget()
	}
	s.frame(9, resumable)
}

func (s *Discord) frame(op int, data any) {
	s.do(func() {
		if s.gateway.out != nil {
			s.gateway.out.push(encode(op, data, 0, ""))
		}
	})
}

// Again sends the last n events again, as a replay does.
func (s *Discord) Again(n int) {
	s.do(func() {
		g := &s.gateway
		for _, e := range g.events[max(len(g.events)-n, 0):] {
			if g.out != nil {
				g.out.push(e)
			}
		}
	})
}

// SetHeartbeats sets how often a bot has to send heartbeats; deaf = they are not answered.
func (s *Discord) SetHeartbeats(every time.Duration, deaf bool) {
	s.do(func() { s.gateway.interval, s.gateway.deaf = int(every.Milliseconds()), deaf })
}

// Connections are how often a bot has begun a session and how often it resumed one.
func (s *Discord) Connections() (identified, resumed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.identifys, s.gateway.resumes
}

// Replayed is how many events were sent again to a bot that resumed.
func (s *Discord) Replayed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.replayed
}

// Connected is true while a bot receives.
func (s *Discord) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.out != nil
}

// Heartbeats is how many came.
func (s *Discord) Heartbeats() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.beats
}

// Intents are those of the newest session.
func (s *Discord) Intents() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gateway.intents
}

// sockets are the connections of bots.
type sockets struct{ *Discord }

// serve is one connection.
func (s sockets) serve(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	o := &outbox{more: make(chan struct{}, 1), stop: stop}
	s.mu.Lock()
	away, interval := s.gateway.away || s.closed, s.gateway.interval
	if !away {
		s.wg.Add(1)
		defer s.wg.Done()
		s.gateway.all[o] = true
	}
	s.mu.Unlock()
	if away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	if r.URL.Query().Get("v") != "9" || r.URL.Query().Get("encoding") != "json" {
		http.Error(w, "version or encoding", http.StatusBadRequest)
		return
	}
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.send(ctx, ws, o)
	}()
	s.do(func() { o.push(encode(10, map[string]any{"heartbeat_interval": interval}, 0, "")) })
	s.receive(ctx, ws, o)
	stop()
	<-written
	s.do(func() {
		delete(s.gateway.all, o)
		if s.gateway.out == o {
			s.gateway.out = nil
		}
	})
}

// send writes what an outbox holds, and closes the connection when it is stopped.
func (s sockets) send(ctx context.Context, ws *websocket.Conn, o *outbox) {
	defer func() {
		s.mu.Lock()
		code := o.code
		s.mu.Unlock()
		if code != 0 {
			_ = ws.Close(code, "")
		}
		_ = ws.CloseNow()
	}()
	for {
		s.mu.Lock()
		frames := o.frames
		o.frames = nil
		s.mu.Unlock()
		for _, f := range frames {
			if ctx.Err() != nil || ws.Write(context.Background(), websocket.MessageText, f) != nil {
				return
			}
		}
		select {
		case <-o.more:
		case <-ctx.Done():
			return
		}
	}
}

// receive reads what the bot says until the connection ends.
func (s sockets) receive(ctx context.Context, ws *websocket.Conn, o *outbox) {
	for {
		_, raw, err := ws.Read(context.Background())
		if err != nil || ctx.Err() != nil {
			if code := websocket.CloseStatus(err); code == websocket.StatusNormalClosure || code == websocket.StatusGoingAway {
				s.do(func() {
					if s.gateway.out == o {
						s.gateway.session = "" // Discord ends a session that is closed so
					}
				})
			}
			return
		}
		var f struct {
			Op   int             `json:"op"`
			Data json.RawMessage `json:"d"`
		}
		if json.Unmarshal(raw, &f) != nil {
			s.refuse(o, 4002)
			return
		}
		s.hear(o, f.Op, f.Data)
	}
}

// refuse closes a connection with a code.
func (s sockets) refuse(o *outbox, code websocket.StatusCode) {
	s.do(func() {
		o.code = code
		o.stop()
	})
}

// hear does what a frame of the bot asks for.
func (s sockets) hear(o *outbox, op int, data json.RawMessage) {
	switch op {
	case 1:
		s.do(func() {
			s.gateway.beats++
			if !s.gateway.deaf {
				o.push(encode(11, nil, 0, ""))
			}
		})
	case 2:
		var d struct {
			Token   string `json:"token"`
			Intents int    `json:"intents"`
		}
		_ = json.Unmarshal(data, &d) // an empty token is refused
		s.identify(o, d.Token, d.Intents)
	case 6:
		var d struct {
			Token   string `json:"token"`
			Session string `json:"session_id"`
			Seq     int64  `json:"seq"`
		}
		_ = json.Unmarshal(data, &d)
		s.resume(o, d.Token, d.Session, d.Seq)
	default:
		s.refuse(o, 4001)
	}
}

func (s sockets) identify(o *outbox, token string, intents int) {
	s.mu.Lock()
	bad, code := token != "Bot "+s.token, s.gateway.refuse
	noContents := intents&(1<<15) != 0 && s.flags&(1<<18|1<<19) == 0
	s.gateway.refuse = 0
	s.mu.Unlock()
	switch {
	case bad:
		s.refuse(o, 4004)
		return
	case code != 0:
		s.refuse(o, code)
		return
	case noContents:
		s.refuse(o, 4014)
		return
	}
	s.do(func() {
		g := &s.gateway
		g.identifys++
		g.intents = intents
		g.session, g.seq, g.events, g.out = "session-"+s.id(), 0, nil, o
		s.starts--
		var guilds []any
		for _, id := range s.guilds {
			guilds = append(guilds, map[string]any{"id": id, "unavailable": true})
		}
		s.dispatch("READY", map[string]any{
			"v": 9, "user": s.wireUser(Bot), "guilds": guilds, "session_id": g.session, "private_channels": []any{},
			"resume_gateway_url": s.GatewayURL(), "application": map[string]any{"id": Application, "flags": s.flags},
		})
	})
}

func (s sockets) resume(o *outbox, token, session string, seq int64) {
	s.do(func() {
		g := &s.gateway
		if token != "Bot "+s.token || session != g.session || session == "" || seq > g.seq {
			o.push(encode(9, false, 0, ""))
			return
		}
		g.resumes++
		g.replayed += len(g.events[seq:])
		for _, e := range g.events[seq:] {
			o.push(e)
		}
		g.out = o
		s.dispatch("RESUMED", map[string]any{})
	})
}

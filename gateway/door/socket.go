package door

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/service"

	shim "github.com/gofiber/contrib/websocket"
	"github.com/gofiber/fiber/v2"
)

// Socket is a WebSocket that speaks a protocol which is not ours: text messages in, text
// messages out. The server's own is in gateway/ws, which keeps 10,000 of them cheaply; these
// count as streams, and each has a goroutine that reads and one that pings.
type Socket struct {
	*service.Services
	Who     *service.Principal
	Context context.Context // ends with the socket, its credential, and when the server goes away
	Address string

	conn   *shim.Conn
	cancel context.CancelFunc
	rates  *service.Rates
	write  sync.Mutex
	closed sync.Once
	silent sync.Mutex // the deadline of reads
}

// Close codes of RFC 6455, section 7.4.1.
const (
	CloseNormal   = 1000
	CloseAway     = 1001
	CloseBadData  = 1003
	ClosePolicy   = 1008
	CloseTooLarge = 1009
	CloseInternal = 1011
)

// ServeSocket is a handler that takes WebSockets of who may do one of the scopes. serve runs until
// it returns; then the socket is closed. It is behind Authenticated.
func (d *HTTP) ServeSocket(subprotocols []string, serve func(s *Socket)) fiber.Handler {
	const slot = "door.slot"
	handshake := shim.New(func(conn *shim.Conn) {
		who, _ := conn.Locals(localPrincipal).(*service.Principal)
		place, _ := conn.Locals(slot).(*place)
		address, _ := conn.Locals(localAddress).(string)
		defer place.free()
		if !place.unanswered.Stop() {
			return
		}
		// The shim's own is used for another client as soon as this returns.
		own := &shim.Conn{Conn: conn.Conn}
		s := &Socket{Services: d.Services, Who: who, Address: address, conn: own, rates: service.NewRates(d.Limits.CommandsPerSecond, d.Limits.CommandsBurst)}
		s.run(serve)
	}, shim.Config{
		Subprotocols: subprotocols,
		RecoverHandler: func(conn *shim.Conn) {
			if r := recover(); r != nil {
				d.Metrics.Panics.Inc()
				d.Log.Error("panic", "where", "socket", "panic", r, "stack", service.Stack())
				_ = conn.WriteControl(shim.CloseMessage, shim.FormatCloseMessage(CloseInternal, "internal error"), time.Now().Add(time.Second))
			}
			_ = conn.Conn.Close() // the HTTP server leaves it open
		},
	})
	return func(c *fiber.Ctx) error {
		if !shim.IsWebSocketUpgrade(c) {
			d.Metrics.Handshakes.WithLabelValues("not_websocket").Inc()
			return fiber.ErrUpgradeRequired
		}
		free, err := d.StreamSlot(c, Principal(c))
		if err != nil {
			d.Metrics.Handshakes.WithLabelValues("unavailable").Inc()
			return err
		}
		// Nobody says so when the answer cannot be written, and then there is no socket.
		c.Locals(slot, &place{free, time.AfterFunc(d.Times.Write, free)})
		c.Locals(localAddress, AddressOf(d.Services, c))
		if err := handshake(c); err != nil {
			free()
			d.Metrics.Handshakes.WithLabelValues("not_websocket").Inc()
			return err
		}
		d.Metrics.Handshakes.WithLabelValues("ok").Inc()
		return nil
	}
}

// place is that of a stream, which a client has while it gets the answer to its handshake.
type place struct {
	free       func()
	unanswered *time.Timer
}

const localAddress = "door.address"

func (s *Socket) run(serve func(s *Socket)) {
	s.Context, s.cancel = context.WithCancel(s.Alive)
	defer s.cancel()
	added := s.Connections.Add(s)
	defer s.Connections.Remove(s)
	if !added {
		s.CloseWith(CloseAway, goingAway)
		s.drop()
		return
	}
	lease := s.Lease(s.Who, func(*conversation.Error) { s.CloseWith(ClosePolicy, "the credential is not valid any more") })
	defer lease.Release()
	if lease.Over() != nil {
		s.CloseWith(ClosePolicy, "the credential is not valid any more")
		s.drop()
		return
	}
	s.conn.SetReadLimit(int64(s.Limits.BodyBytes))
	s.alive()
	s.conn.SetPongHandler(func(string) error {
		s.alive()
		return nil
	})
	pinged := make(chan struct{})
	go s.ping(pinged)
	serve(s)
	s.CloseWith(CloseNormal, "")
	<-pinged
	s.drop()
}

// drop reads until the client has answered the close, or the time for that is over: what it has
// sent and nobody has read would take the reason away from it.
func (s *Socket) drop() {
	for {
		if _, _, err := s.conn.NextReader(); err != nil {
			return
		}
	}
}

// alive gives the client time until its next word or pong, but for one whose socket is closed.
func (s *Socket) alive() {
	s.silent.Lock()
	defer s.silent.Unlock()
	if s.Context.Err() == nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(s.Times.ReadDeadline))
	}
}

func (s *Socket) ping(ended chan struct{}) {
	defer close(ended)
	quiet := time.NewTicker(s.Times.Heartbeat)
	defer quiet.Stop()
	for {
		select {
		case <-quiet.C:
			if s.conn.WriteControl(shim.PingMessage, nil, time.Now().Add(s.Times.Write)) != nil {
				s.ForceClose()
			}
		case <-s.Context.Done():
			return
		}
	}
}

// Read is the next text message. A client that sends more of them than limits.commands_per_second
// is read more slowly. Only one goroutine may read.
func (s *Socket) Read() ([]byte, error) {
	kind, message, err := s.conn.ReadMessage()
	switch {
	case err != nil:
		s.cancel()
		return nil, err
	case kind != shim.TextMessage:
		s.CloseWith(CloseBadData, "messages must be text")
		return nil, errors.New("a message that is no text")
	case s.Context.Err() != nil: // it was closed, and the client has not heard of it, or does not care
		return nil, s.Context.Err()
	}
	s.alive()
	s.Metrics.BytesIn.Add(float64(len(message)))
	for {
		allowed := s.rates.Take(struct{}{}, s.Now())
		if allowed.Wait <= 0 {
			return message, nil
		}
		pause := time.NewTimer(allowed.Wait)
		select {
		case <-pause.C:
		case <-s.Context.Done():
			pause.Stop()
			return nil, s.Context.Err()
		}
	}
}

// Send sends a text message. It may be called from any goroutine; a client that takes nothing for
// gateway.write_timeout is cut off. false = the socket has ended.
func (s *Socket) Send(message []byte) bool {
	s.write.Lock()
	defer s.write.Unlock()
	if s.Context.Err() != nil {
		return false
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.Times.Write))
	if s.conn.WriteMessage(shim.TextMessage, message) != nil {
		s.ForceClose()
		return false
	}
	s.Metrics.FramesOut.Inc()
	s.Metrics.BytesOut.Add(float64(len(message)))
	s.Metrics.Writes.Inc()
	return true
}

// CloseWith ends the socket with a code.
func (s *Socket) CloseWith(code int, reason string) {
	s.closed.Do(func() {
		_ = s.conn.WriteControl(shim.CloseMessage, shim.FormatCloseMessage(code, reason), time.Now().Add(s.Times.Close))
		s.cancel()
		s.silent.Lock()
		defer s.silent.Unlock()
		_ = s.conn.SetReadDeadline(time.Now().Add(s.Times.Close)) // the answer to the close, and whoever reads
	})
}

// GoAway implements service.Connection. There is no word for it in protocols that are not ours.
func (s *Socket) GoAway(int, string, time.Duration) {}

const goingAway = "the server is going away"

// Close implements service.Connection. A client that takes nothing holds up nobody else's.
func (s *Socket) Close() { go s.CloseWith(CloseAway, goingAway) }

// ForceClose implements service.Connection.
func (s *Socket) ForceClose() {
	s.cancel()
	_ = s.conn.Close()
}

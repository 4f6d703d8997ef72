package gateway

import (
	"sync"
	"time"

	"parley/gateway/door"
	"parley/gateway/service"

	shim "github.com/gofiber/contrib/websocket"
	"github.com/gofiber/fiber/v2"
)

// upgrade is GET /ws. The shim is used for the handshake only: its own checks of
// origins are off (ours run before, on every route), compression stays off (a
// read limit does not hold for what a compressed frame becomes), and its recover
// handler, which tells panics to the client, is replaced.
//
// The handler returns at once and the connection goes on in a goroutine of its own
// (the HTTP server is told to leave such a socket open): while a handler runs, the
// request with its headers and buffers is kept, and the stack of all who called it. An
// idle socket with one follow takes 11 KB, of which 4 are its goroutine (10,000 of them).
func (s *Server) upgrade() fiber.Handler {
	handshake := shim.New(func(ws *shim.Conn) {
		credential, _ := ws.Locals(door.LocalCredential).(service.Credential)
		s.ws.Start(ws.Conn, credential)
	}, shim.Config{
		Subprotocols:    []string{"parley.v1"},
		ReadBufferSize:  1024,
		WriteBufferSize: 512,
		WriteBufferPool: &sync.Pool{}, // the library writes next to nothing by itself
		RecoverHandler: func(ws *shim.Conn) {
			if r := recover(); r != nil {
				s.services.Metrics.Panics.Inc()
				s.services.Log.Error("panic", "where", "socket", "panic", r, "stack", service.Stack())
				_ = ws.WriteControl(shim.CloseMessage, shim.FormatCloseMessage(1011, "internal error"), time.Now().Add(time.Second))
				_ = ws.Close()
			}
		},
	})
	return func(c *fiber.Ctx) error {
		if !shim.IsWebSocketUpgrade(c) {
			s.services.Metrics.Handshakes.WithLabelValues("not_websocket").Inc()
			return fiber.ErrUpgradeRequired
		}
		if s.services.Connections.Draining() {
			s.services.Metrics.Handshakes.WithLabelValues("unavailable").Inc()
			return service.ErrDraining
		}
		credential := door.TicketOf(s.services, c)
		credential.Trace = service.TraceParent(c.Get(service.TraceHeader))
		c.Locals(door.LocalCredential, credential)
		err := handshake(c)
		if err != nil {
			s.services.Metrics.Handshakes.WithLabelValues("not_websocket").Inc()
			return err
		}
		s.services.Metrics.Handshakes.WithLabelValues("ok").Inc()
		return nil
	}
}

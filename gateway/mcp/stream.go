package mcp

import (
	"bufio"
	"context"
	"net"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// stream is an answer of server-sent events. It ends with what makes them. When the server goes
// away it first says how far it is: who waits for an answer is told that the work goes on.
type stream struct {
	*service.Services
	ctx     context.Context
	cancel  context.CancelFunc
	leaving context.Context // ends when the server goes away
	leave   context.CancelFunc
	net     net.Conn
	events  chan []byte
	work    func(*stream)
}

var _ door.Streamer = (*stream)(nil)

// stream answers a request with the events that work says, in a goroutine of its own, until it returns.
func (m *way) stream(c *fiber.Ctx, who *service.Principal, free func(), work func(*stream)) {
	s := &stream{Services: m.Services, net: c.Context().Conn(), events: make(chan []byte), work: work}
	s.ctx, s.cancel = context.WithCancel(m.Alive)
	s.leaving, s.leave = context.WithCancel(s.ctx)
	m.Stream(c, who, door.EventStream, s, free)
}

// say says a message, with the id of the event; "" = it has none. It may be called from any
// goroutine that ends with work. false = the client takes nothing any more.
func (s *stream) say(id string, message []byte) bool {
	return s.put(appendEvent(make([]byte, 0, len(id)+len(message)+40), id, message))
}

func appendEvent(dst []byte, id string, message []byte) []byte {
	dst = append(dst, "event: message\n"...)
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	return append(append(append(dst, "data: "...), message...), "\n\n"...)
}

// prime gives the client the id of where it stands, and when to come back if it is cut off.
func (s *stream) prime(id string) bool {
	b := append(door.AppendRetry(nil, door.Retry()), "id: "...)
	return s.put(append(append(b, id...), "\ndata: \n\n"...))
}

func (s *stream) put(b []byte) bool {
	select {
	case s.events <- b:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// Write implements door.Streamer.
func (s *stream) Write(out *bufio.Writer) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				s.Metrics.Panics.Inc()
				s.Log.Error("panic", "where", "mcp", "panic", p, "stack", service.Stack())
			}
		}()
		s.work(s)
	}()
	defer func() {
		s.cancel()
		<-ended
	}()
	quiet := time.NewTicker(s.Times.Comment)
	defer quiet.Stop()
	if !s.send(out, []byte(": ok\n\n")) { // the head goes out with it
		return
	}
	for {
		select {
		case b := <-s.events:
			if !s.send(out, b) {
				return
			}
			quiet.Reset(s.Times.Comment)
		case <-quiet.C:
			if !s.send(out, []byte(": hb\n\n")) {
				return
			}
		case <-ended:
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *stream) send(out *bufio.Writer, b []byte) bool {
	_ = s.net.SetWriteDeadline(s.Now().Add(s.Times.Write))
	_, err := out.Write(b)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return false
	}
	s.Metrics.FramesOut.Inc()
	s.Metrics.BytesOut.Add(float64(len(b)))
	s.Metrics.Writes.Inc()
	return true
}

// GoAway implements door.Streamer. There is no word for it in this protocol.
func (s *stream) GoAway(int, string, time.Duration) {}

// Close implements door.Streamer.
func (s *stream) Close() { s.leave() }

// ForceClose implements door.Streamer.
func (s *stream) ForceClose() {
	s.cancel()
	_ = s.net.Close()
}

// LeaseEnded implements door.Streamer.
func (s *stream) LeaseEnded(*conversation.Error) { s.cancel() }

// Release implements door.Streamer.
func (s *stream) Release() { s.cancel() }

package mcp

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// The SDK's server is a handler of net/http. The bridge runs it for a request of ours: what it
// answers whole is an answer like others, and what it streams is a stream like others, which has a
// place under the limits, ends with its credential, and is reached by a drain.

type principalKey struct{}

// principalOf is who makes a request that the SDK has handed on.
func principalOf(ctx context.Context) *service.Principal {
	who, _ := ctx.Value(principalKey{}).(*service.Principal)
	return who
}

// serve answers a request by a handler of net/http.
func (m *way) serve(c *fiber.Ctx, h http.Handler) error {
	who := door.Principal(c)
	ctx, cancel := context.WithCancel(context.WithValue(m.Alive, principalKey{}, who))
	r, err := http.NewRequestWithContext(ctx, c.Method(), "http://"+string(c.Request().Host())+c.OriginalURL(), bytes.NewReader(bytes.Clone(c.Request().Body())))
	if err != nil {
		cancel()
		return err
	}
	for name, value := range c.Request().Header.All() {
		r.Header.Add(string(name), string(value))
	}
	r.Host = string(c.Request().Host())
	w := newWriter(ctx)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				m.Metrics.Panics.Inc()
				m.Log.Error("panic", "where", "mcp", "panic", p, "stack", service.Stack())
				w.fail()
			}
			w.end()
		}()
		h.ServeHTTP(w, r)
	}()
	streams := w.decided()
	for name, values := range w.head {
		for _, value := range values {
			c.Response().Header.Add(name, value)
		}
	}
	c.Status(w.status)
	if !streams {
		cancel()
		return c.Send(w.body.Bytes())
	}
	free, err := m.StreamSlot(c, who)
	if err != nil {
		cancel()
		return err
	}
	s := &streamed{Services: m.Services, w: w, cancel: cancel, net: c.Context().Conn()}
	c.Response().Header.Del(fiber.HeaderContentType)
	m.Stream(c, who, w.head.Get(fiber.HeaderContentType), s, free)
	return nil
}

// writer is the http.ResponseWriter of the handler. Until the first flush it gathers; then what is
// written goes through a pipe.
type writer struct {
	ctx    context.Context
	head   http.Header
	status int
	body   bytes.Buffer

	mu      sync.Mutex
	begun   bool          // the status is known
	flows   bool          // flushed once: the pipe is used
	known   chan struct{} // closed when it is known whether it flows
	decide  sync.Once
	in      *io.PipeWriter
	out     *io.PipeReader
	headers http.Header // what the handler sees
}

func newWriter(ctx context.Context) *writer {
	w := &writer{ctx: ctx, headers: http.Header{}, status: http.StatusOK, known: make(chan struct{})}
	w.out, w.in = io.Pipe()
	return w
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.headers }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin(status)
}

func (w *writer) begin(status int) {
	if !w.begun {
		w.begun, w.status, w.head = true, status, w.headers.Clone()
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.begin(http.StatusOK)
	if !w.flows {
		defer w.mu.Unlock()
		return w.body.Write(b)
	}
	w.mu.Unlock()
	return w.in.Write(b)
}

// Flush implements http.Flusher: an answer that is flushed is a stream.
func (w *writer) Flush() {
	w.mu.Lock()
	w.begin(http.StatusOK)
	if w.flows || !strings.HasPrefix(w.head.Get(fiber.HeaderContentType), door.EventStream) {
		w.mu.Unlock()
		return
	}
	w.flows = true
	w.mu.Unlock()
	w.decide.Do(func() { close(w.known) })
}

// fail is the answer after a panic, if there is none yet.
func (w *writer) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begin(http.StatusInternalServerError)
		w.body.WriteString("something went wrong on the server")
	}
}

func (w *writer) end() {
	w.mu.Lock()
	w.begin(http.StatusOK)
	w.mu.Unlock()
	_ = w.in.Close()
	w.decide.Do(func() { close(w.known) })
}

// decided waits until it is known whether the answer is a stream.
func (w *writer) decided() bool {
	<-w.known
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flows
}

// streamed is the stream as the door knows it.
type streamed struct {
	*service.Services
	w      *writer
	cancel context.CancelFunc
	net    net.Conn
}

// Write implements door.Streamer.
func (s *streamed) Write(out *bufio.Writer) {
	if !s.send(out, s.w.body.Bytes()) {
		return
	}
	pieces := make(chan []byte)
	go func() {
		defer close(pieces)
		buffer := make([]byte, 32<<10)
		for {
			n, err := s.w.out.Read(buffer)
			if n > 0 {
				select {
				case pieces <- bytes.Clone(buffer[:n]):
				case <-s.w.ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	quiet := time.NewTicker(s.Times.Comment)
	defer quiet.Stop()
	for {
		select {
		case piece, more := <-pieces:
			if !more || !s.send(out, piece) {
				return
			}
			quiet.Reset(s.Times.Comment)
		case <-quiet.C:
			if !s.send(out, []byte(": hb\n\n")) {
				return
			}
		case <-s.w.ctx.Done():
			return
		}
	}
}

func (s *streamed) send(out *bufio.Writer, b []byte) bool {
	_ = s.net.SetWriteDeadline(s.Now().Add(s.Times.Write))
	_, err := out.Write(b)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		s.Metrics.FramesOut.Inc()
		s.Metrics.BytesOut.Add(float64(len(b)))
		s.Metrics.Writes.Inc()
	}
	return err == nil
}

// Release implements door.Streamer.
func (s *streamed) Release() {
	s.cancel()
	_ = s.w.out.CloseWithError(context.Canceled)
}

// GoAway implements door.Streamer. There is no word for it in this protocol.
func (s *streamed) GoAway(int, string, time.Duration) {}

// Close implements door.Streamer.
func (s *streamed) Close() { s.cancel() }

// ForceClose implements door.Streamer.
func (s *streamed) ForceClose() {
	s.cancel()
	_ = s.net.Close()
}

// LeaseEnded implements door.Streamer.
func (s *streamed) LeaseEnded(*conversation.Error) { s.cancel() }

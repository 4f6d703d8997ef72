package ws

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/fasthttp/websocket"
)

// conn is one WebSocket: a goroutine that reads, until all else has ended, and a
// writer, which alone writes to the socket: one of the senders, while there is
// something to write. Frames that the library would write by itself (pongs, the
// answer to a close frame) go through the queue as well.
//
// It keeps the inner connection only, never contrib's wrapper: that one goes back
// to a pool and becomes another client's.
type conn struct {
	*handler
	ws    *websocket.Conn
	net   net.Conn
	raw   syscall.RawConn // of net, to write without waiting
	beats beats
	clock struct {
		// Times count from began: one on the wall may be set, and every client would
		// look dead, or alive for ever.
		began time.Time
		read  atomic.Int64 // ns until the last frame from the client, of any kind
		write atomic.Int64 // ns until the last write
	}
	code    atomic.Int32 // the close code; 0 = not closing
	wasOpen atomic.Bool  // hello was accepted
	guest   *guest       // before hello
	waiting *waitingRoom
	writer  chan struct{} // closed when nothing is written any more
	cancel  context.CancelFunc
	buf     []byte // the reader's
	control bucket // of pings and pongs; the reader's
}

// Sockets serves WebSockets.
type Sockets struct {
	*service.Services
	counts  *connLimits
	waiting *waitingRoom
	names   connNames
	senders *senders
}

// New serves WebSockets with the limits of s.
func New(s *service.Services) *Sockets {
	return &Sockets{Services: s, counts: newConnLimits(s.Limits), waiting: newWaitingRoom(s.Limits), senders: newSenders()}
}

func (s *Sockets) newConn(ws *websocket.Conn, credential service.Credential) *conn {
	ctx, cancel := context.WithCancel(s.Alive)
	c := &conn{ws: ws, net: socketOf(ws), writer: make(chan struct{}), cancel: cancel}
	c.raw = rawSocket(c.net)
	now := s.Now()
	c.handler = &handler{
		Services: s.Services, name: s.names.next(), credential: credential, counts: s.counts,
		out: s.Hub.NewNotifyingQueue(s.Sessions, s.Limits, func() { s.senders.add(c) }), ctx: ctx, close: c.closeWith, opened: c.helloSaid,
		bucket: newBucket(s.Limits.CommandsPerSecond, s.Limits.CommandsBurst, now),
	}
	c.waiting = s.waiting
	c.guest = &guest{group: service.AddressGroup(credential.Address), leave: c.lostPlace}
	c.clock.began = now
	c.control = newBucket(s.Limits.ControlFramesPerSecond, s.Limits.ControlFramesBurst, now)
	return c
}

// socketOf returns the socket itself. The library hands out a wrapper of fasthttp's,
// which is needed only to read what came right behind the request.
func socketOf(ws *websocket.Conn) net.Conn {
	if wrapper, ok := ws.NetConn().(interface{ UnsafeConn() net.Conn }); ok {
		return wrapper.UnsafeConn()
	}
	return ws.NetConn()
}

// Start serves a connection in a goroutine of its own, to its end; then the socket is
// closed and nothing of the connection runs any more.
func (s *Sockets) Start(ws *websocket.Conn, credential service.Credential) {
	c := s.newConn(ws, credential)
	c.controlFrames()
	c.deadline(c.Times.Hello)
	c.waiting.add(c.guest)
	c.Metrics.Connections.WithLabelValues("before_hello").Inc()
	if !s.Connections.Add(c) {
		c.closeWith(protocol.CloseRestart, "the server is going away")
	}
	c.startHeartbeats()
	go c.serve()
}

// lostPlace ends a connection before hello whose place another one has taken. It ends
// after the handshake, because a browser cannot see why a handshake failed.
func (c *conn) lostPlace(limit string) {
	c.Metrics.Refused.WithLabelValues(limit).Inc()
	c.closeWith(protocol.CloseOverloaded, limit)
}

// serve runs the connection to its end.
//
// What a goroutine that waits for a client's next frame has on its stack, serve and
// read and all below, decides whether the stack shrinks to 4 KB or stays at 8: they
// keep next to nothing there.
func (c *conn) serve() {
	c.read()
	c.end()
}

// end waits until the writer has written the close frame, or has failed to, and ends
// all that runs for the connection.
func (c *conn) end() {
	if !c.closing() {
		c.out.Abandon()
	}
	<-c.writer
	c.stopHeartbeats()
	if c.lease != nil {
		c.lease.Release()
	}
	c.unfollowAll()
	c.cancel()
	c.out.Abandon()
	_ = c.net.Close()
	c.jobs.Wait()
	c.waiting.remove(c.guest)
	state := "before_hello"
	if c.wasOpen.Load() {
		state = "open"
		c.counts.remove(c.who)
	}
	c.Metrics.Connections.WithLabelValues(state).Dec()
	c.Metrics.CloseCodes.WithLabelValues(protocol.CloseLabel(int(c.code.Load()))).Inc()
	c.Log.Debug("connection closed", "conn", c.name, "code", c.code.Load())
	c.Connections.Remove(c) // last: a drain that finds no connection left may end the process
}

// helloSaid moves the connection from those who have not said who they are.
func (c *conn) helloSaid() {
	c.waiting.remove(c.guest)
	c.wasOpen.Store(true)
	c.Metrics.Connections.WithLabelValues("before_hello").Dec()
	c.Metrics.Connections.WithLabelValues("open").Inc()
	c.Log.Debug("connection open", "conn", c.name, "tenant", string(c.who.Tenant), "user", string(c.who.User), "client", conversation.Excerpt(c.caps.Name, 40))
	c.clock.read.Store(c.since(c.Now()))
	c.deadline(c.Times.ReadDeadline)
}

// closeWith ends the connection: what is queued, then the close frame, then the
// client's answer to it or Times.Close. Only the first code counts.
func (c *conn) closeWith(code int, reason string) {
	if !c.code.CompareAndSwap(0, int32(code)) {
		return
	}
	c.out.Finish(protocol.CloseFrame(code, reason))
}

func (c *conn) closing() bool { return c.code.Load() != 0 }

// read takes frames until the connection ends.
func (c *conn) read() {
	defer c.recoverPanic("reader")
	for c.taken(c.ws.NextReader()) {
	}
}

// taken deals with the client's next message; more is false when none can follow.
func (c *conn) taken(kind int, r io.Reader, err error) (more bool) {
	if err != nil {
		c.readFailed(err)
		return false
	}
	if c.closing() {
		return true // the rest is not for us; only the answer to our close frame is
	}
	c.touch(c.Now())
	if kind != websocket.TextMessage {
		c.Metrics.FramesIn.Inc()
		c.closeWith(protocol.CloseBinary, "frames are text")
		return true
	}
	if err := c.message(r); err != nil {
		c.readFailed(err)
		return false
	}
	c.waitForRoom()
	return true
}

// message reads one text message, bounded, and hands it on.
func (c *conn) message(r io.Reader) error {
	limit := c.Limits.FrameBytes
	c.buf = c.buf[:0]
	for {
		if service.OverLimit(len(c.buf)-1, limit) {
			c.tooBig()
			return nil
		}
		if len(c.buf) == cap(c.buf) {
			c.buf = append(c.buf, make([]byte, max(512, cap(c.buf)))...)[:len(c.buf)]
		}
		n, err := r.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if service.OverLimit(len(c.buf)-1, limit) {
		c.tooBig()
		return nil
	}
	c.Metrics.FramesIn.Inc()
	c.Metrics.BytesIn.Add(float64(len(c.buf)))
	if !utf8.Valid(c.buf) {
		c.closeWith(protocol.CloseUTF8, "text must be UTF-8")
		return nil
	}
	c.handle(c.buf)
	if cap(c.buf) > 8<<10 {
		c.buf = nil // most connections send little
	}
	return nil
}

// tooBig refuses a frame over the limit; the rest of it is not read.
func (c *conn) tooBig() {
	c.Metrics.Refused.WithLabelValues("frame_bytes").Inc()
	responder{c: c.handler, kind: "unknown", at: c.Now()}.fail(
		conversation.Errorf(conversation.TooLarge, "a frame must be at most %d bytes", c.Limits.FrameBytes))
	c.closeWith(protocol.CloseTooBig, "the frame is too big")
	c.buf = nil
}

// waitForRoom holds the reader back while answers pile up that the client does not
// take. A write that is blocked for too long ends the wait.
func (c *conn) waitForRoom() {
	waited := false
	for c.out.Full() {
		waited = true
		select {
		case <-c.out.Room():
		case <-c.writer:
			return
		}
	}
	if waited && !c.closing() {
		c.deadline(c.Times.ReadDeadline) // the silence was ours
	}
}

// controlFrames lets the writer write what the library would write from the reader.
func (c *conn) controlFrames() {
	c.ws.SetReadLimit(0) // ours counts bytes and says why; see message
	c.ws.SetPingHandler(func(data string) error {
		if c.controlFrame() {
			c.out.Pong([]byte(data))
		}
		return nil
	})
	c.ws.SetPongHandler(func(string) error {
		c.controlFrame()
		return nil
	})
	c.ws.SetCloseHandler(func(code int, _ string) error {
		echo := code
		if code == websocket.CloseNoStatusReceived {
			echo = protocol.CloseNormal
		}
		c.closeWith(echo, "")
		return nil
	})
}

// controlFrame notes a ping or a pong; false = nothing comes of it. There is no answer
// that could refuse one, so one too many ends the connection.
func (c *conn) controlFrame() bool {
	if c.closing() {
		return false
	}
	now := c.Now()
	if wait, _ := c.control.allow(now); wait > 0 {
		c.Metrics.Refused.WithLabelValues("control_frames_per_second").Inc()
		c.closeWith(protocol.CloseRateLimited, "too many control frames")
		return false
	}
	c.touch(now)
	return true
}

// readFailed tells the client why the connection ends, if it can still be reached.
func (c *conn) readFailed(err error) {
	switch {
	case c.closing():
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.wasOpen.Load():
		c.closeWith(protocol.CloseHelloTimeout, "no hello")
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.closeWith(protocol.CloseHeartbeat, "no sign of life")
	default:
		c.code.CompareAndSwap(0, 1006) // it just went away
		c.out.Abandon()
	}
}

func (c *conn) GoAway(code int, reason string, retryIn time.Duration) {
	c.out.Answer(func(b []byte) []byte { return protocol.AppendGoaway(b, code, reason, retryIn) })
}

func (c *conn) Close() { c.closeWith(protocol.CloseRestart, "the server is going away") }

func (c *conn) ForceClose() { _ = c.net.Close() }

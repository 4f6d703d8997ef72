package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"parley/conversation"

	"github.com/fasthttp/websocket"
)

func stack() string { return string(debug.Stack()) }

// conn is one WebSocket: a reader (Fiber's handler, which blocks until all else
// has ended) and a writer, which alone writes to the socket. What the library
// would write by itself (pongs, the answer to a close frame) goes through the
// queue as well.
//
// It keeps the inner connection only, never contrib's wrapper: that one goes back
// to a pool and becomes another client's.
type conn struct {
	*client
	ws    *websocket.Conn
	net   net.Conn
	clock struct {
		read  atomic.Int64 // unix ns of the last frame from the client, of any kind
		write atomic.Int64 // unix ns of the last write
	}
	code    atomic.Int32 // the close code; 0 = not closing
	wasOpen atomic.Bool  // hello was accepted
	settled sync.Once    // counted as no longer before hello
	writer  chan struct{}
	cancel  context.CancelFunc
	buf     []byte // the reader's
}

func (s *Server) newConn(ws *websocket.Conn, credential Credential) *conn {
	ctx, cancel := context.WithCancel(s.alive)
	c := &conn{ws: ws, net: socketOf(ws), writer: make(chan struct{}), cancel: cancel}
	now := s.now()
	c.client = &client{
		core: s.core, name: s.names.next(), credential: credential, counts: s.counts,
		out: newOutbox(s.cfg.Limits, s.m), ctx: ctx, close: c.closeWith, opened: c.helloSaid,
		bucket: newBucket(s.cfg.Limits, now),
	}
	c.clock.read.Store(now.UnixNano())
	c.clock.write.Store(now.UnixNano())
	return c
}

// socketOf is the socket itself. What the library hands out is a wrapper of
// fasthttp's that goes back to a pool, and whose Close does nothing.
func socketOf(ws *websocket.Conn) net.Conn {
	if wrapper, ok := ws.NetConn().(interface{ UnsafeConn() net.Conn }); ok {
		return wrapper.UnsafeConn()
	}
	return ws.NetConn()
}

// serveConn runs the connection to its end. It is Fiber's goroutine; when it returns
// nothing of the connection runs any more.
func (s *Server) serveConn(ws *websocket.Conn, credential Credential) {
	c := s.newConn(ws, credential)
	c.m.Connections.WithLabelValues("before_hello").Inc()
	limit := s.counts.arrive(credential.Address)
	if limit != "" {
		// Refused after the handshake, because a browser cannot see why a
		// handshake failed. Costs one write and at most Times.Close.
		c.m.Refused.WithLabelValues(limit).Inc()
		c.settled.Do(func() {})
		c.closeWith(closeOverloaded, limit)
	}
	if !s.conns.add(c) {
		c.closeWith(closeRestart, "the server is going away")
	}
	go c.write()
	c.read(limit == "")

	c.unfollowAll()
	c.cancel()
	c.out.abandon()
	<-c.writer
	_ = c.net.Close()
	c.jobs.Wait()
	c.settled.Do(func() { s.counts.settle(credential.Address) })
	state := "before_hello"
	if c.wasOpen.Load() {
		state = "open"
		s.counts.leave(c.who)
	}
	c.m.Connections.WithLabelValues(state).Dec()
	c.m.CloseCodes.WithLabelValues(closeLabel(int(c.code.Load()))).Inc()
	c.log.Debug("connection closed", "conn", c.name, "code", c.code.Load())
	s.conns.remove(c) // last: a drain that sees nobody left may end the process
}

// helloSaid moves the connection from those who have not said who they are.
func (c *conn) helloSaid() {
	c.settled.Do(func() { c.counts.settle(c.credential.Address) })
	c.wasOpen.Store(true)
	c.m.Connections.WithLabelValues("before_hello").Dec()
	c.m.Connections.WithLabelValues("open").Inc()
	c.log.Debug("connection open", "conn", c.name, "tenant", string(c.who.Tenant), "user", string(c.who.User), "client", conversation.Excerpt(c.caps.name, 40))
	c.clock.read.Store(c.now().UnixNano())
	c.deadline(c.cfg.Times.ReadDeadline)
}

// closeWith ends the connection: what is queued, then the close frame, then the
// client's answer to it or Times.Close. Only the first code counts.
func (c *conn) closeWith(code int, reason string) {
	if !c.code.CompareAndSwap(0, int32(code)) {
		return
	}
	c.out.finish(closeFrame(code, reason))
}

func (c *conn) closing() bool { return c.code.Load() != 0 }

// read takes frames until the connection ends.
func (c *conn) read(welcome bool) {
	defer c.finish()
	defer c.survive("reader")
	c.handlers()
	if welcome {
		c.deadline(c.cfg.Times.Hello)
	} else {
		c.deadline(c.cfg.Times.Close)
	}
	for {
		kind, r, err := c.ws.NextReader()
		if err != nil {
			c.readFailed(err)
			return
		}
		if c.closing() {
			continue // the rest is not for us; only the answer to our close frame is
		}
		c.touch(c.now())
		if kind != websocket.TextMessage {
			c.m.FramesIn.Inc()
			c.closeWith(closeBinary, "frames are text")
			continue
		}
		if err := c.message(r); err != nil {
			c.readFailed(err)
			return
		}
		c.makeRoom()
	}
}

// message reads one text message, bounded, and hands it on.
func (c *conn) message(r io.Reader) error {
	limit := c.cfg.Limits.FrameBytes
	c.buf = c.buf[:0]
	for {
		if over(len(c.buf)-1, limit) {
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
	if over(len(c.buf)-1, limit) {
		c.tooBig()
		return nil
	}
	c.m.FramesIn.Inc()
	c.m.BytesIn.Add(float64(len(c.buf)))
	if !utf8.Valid(c.buf) {
		c.closeWith(closeUTF8, "text must be UTF-8")
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
	c.m.Refused.WithLabelValues("frame_bytes").Inc()
	pending{c: c.client, kind: "unknown", at: c.now()}.fail(
		conversation.Errorf(conversation.TooLarge, "a frame must be at most %d bytes", c.cfg.Limits.FrameBytes))
	c.closeWith(closeTooBig, "the frame is too big")
	c.buf = nil
}

// makeRoom holds the reader back while answers pile up that the client does not
// take. A write that is blocked for too long ends the wait.
func (c *conn) makeRoom() {
	waited := false
	for c.out.full() {
		waited = true
		select {
		case <-c.out.room:
		case <-c.writer:
			return
		}
	}
	if waited && !c.closing() {
		c.deadline(c.cfg.Times.ReadDeadline) // the silence was ours
	}
}

// handlers let the writer write what the library would write from the reader.
func (c *conn) handlers() {
	c.ws.SetReadLimit(0) // ours counts bytes and says why; see message
	c.ws.SetPingHandler(func(data string) error {
		c.touch(c.now())
		if !c.closing() {
			c.out.control(opPong, []byte(data))
		}
		return nil
	})
	c.ws.SetPongHandler(func(string) error {
		c.touch(c.now())
		return nil
	})
	c.ws.SetCloseHandler(func(code int, _ string) error {
		echo := code
		if code == websocket.CloseNoStatusReceived {
			echo = closeNormal
		}
		c.closeWith(echo, "")
		return nil
	})
}

// touch notes that the client lives and moves the read deadline, at most once a
// second: a deadline costs more than a clock.
func (c *conn) touch(now time.Time) {
	if !c.wasOpen.Load() || c.closing() {
		return
	}
	since := now.UnixNano() - c.clock.read.Load()
	if since >= int64(min(time.Second, c.cfg.Times.Heartbeat/4)) {
		c.clock.read.Store(now.UnixNano())
		c.deadline(c.cfg.Times.ReadDeadline)
		if c.closing() { // meanwhile: the writer's deadline counts
			c.deadline(c.cfg.Times.Close)
		}
	}
}

func (c *conn) deadline(d time.Duration) { _ = c.net.SetReadDeadline(c.now().Add(d)) }

// readFailed says why the connection ends, if the client can still be told.
func (c *conn) readFailed(err error) {
	switch {
	case c.closing():
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.wasOpen.Load():
		c.closeWith(closeHelloTimeout, "no hello")
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.closeWith(closeHeartbeat, "no sign of life")
	default:
		c.code.CompareAndSwap(0, 1006) // it just went away
		c.out.abandon()
	}
}

// finish waits until the writer has written the close frame, or has failed to.
func (c *conn) finish() {
	if !c.closing() {
		c.out.abandon()
	}
	<-c.writer
}

// write is the writer: the only goroutine that writes to the socket.
func (c *conn) write() {
	defer close(c.writer)
	crashed := true
	defer func() {
		if crashed { // nobody is left to write a close frame
			_ = c.net.Close()
		}
	}()
	defer c.survive("writer")
	c.writeAll()
	crashed = false
}

// writeAll writes what comes until the connection ends.
func (c *conn) writeAll() {
	var due atomic.Bool // a heartbeat
	// A timer of the select would cost each sleep of the writer as much as the
	// channel itself.
	beat := time.AfterFunc(c.cfg.Times.Heartbeat, func() {
		due.Store(true)
		c.out.nudge()
	})
	defer beat.Stop()
	var scratch *[]byte
	release := func() {
		if scratch != nil {
			writeBuffers.Put(scratch)
			scratch = nil
		}
	}
	defer release()
	for {
		if scratch == nil {
			scratch = writeBuffers.Get().(*[]byte)
		}
		t := c.out.take(*scratch)
		if t.frames > 0 {
			if !c.flush(t.data, t.frames) {
				return
			}
			if t.last {
				// The reader waits for the client's own close frame, not for ever.
				c.deadline(c.cfg.Times.Close)
				return
			}
		}
		if t.behind != nil {
			live, err := c.catchUp(c.ctx, t.behind)
			if err != nil {
				if c.ctx.Err() == nil {
					c.log.Error("replay failed", "session", string(t.behind.key.Session), "error", err)
				}
				t.behind.stop()
				c.closeWith(closeInternal, "the log could not be read")
			}
			if live {
				c.resumeDrafts(c.ctx, t.behind)
			}
			continue
		}
		if t.frames > 0 {
			continue
		}
		if t.ended {
			return
		}
		release()
		if !due.Load() { // it may have become so while the writer was not asleep
			<-c.out.wake
		}
		if due.CompareAndSwap(true, false) {
			beat.Reset(c.heartbeat())
		}
	}
}

// writeBuffers are what the frames of one write are gathered in. A connection
// has one only while it has something to write.
var writeBuffers = sync.Pool{New: func() any { b := make([]byte, 0, writeBytes+1024); return &b }}

// flush writes whole frames. A write that is blocked for longer than Times.Write
// ends the connection with 4004, if the client reads again at once to hear of it.
func (c *conn) flush(data []byte, frames int) bool {
	now := c.now()
	_ = c.net.SetWriteDeadline(now.Add(c.cfg.Times.Write))
	n, err := c.net.Write(data)
	c.m.Writes.Inc()
	c.m.BytesOut.Add(float64(n))
	if err == nil {
		c.m.FramesOut.Add(float64(frames))
		c.clock.write.Store(now.UnixNano())
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && c.code.CompareAndSwap(0, closeSlow) {
		// A frame may be half out: end it before the close frame.
		rest := remainder(data, n)
		_ = c.net.SetWriteDeadline(c.now().Add(c.cfg.Times.Close))
		_, _ = c.net.Write(append(append([]byte(nil), rest...), closeFrame(closeSlow, "too slow")...))
	}
	_ = c.net.Close() // the reader ends as well
	return false
}

// remainder is the rest of the frame that a write of n bytes has begun.
func remainder(data []byte, n int) []byte {
	b := data
	for len(b) > 0 {
		_, _, rest := nextFrame(b)
		if end := len(data) - len(rest); end >= n {
			return data[n:end]
		}
		b = rest
	}
	return nil
}

// heartbeat speaks up when it was quiet, and says when to look again. A ping asks
// for a sign of life also of a client that only listens; hb is for clients whose
// language hides pings.
func (c *conn) heartbeat() time.Duration {
	now := c.now()
	every := c.cfg.Times.Heartbeat
	if at := c.expires.Load(); at != 0 && now.UnixMilli() >= at {
		c.closeWith(closeTokenExpired, "the token has expired")
		return every
	}
	heard, spoke := now.Sub(time.Unix(0, c.clock.read.Load())), now.Sub(time.Unix(0, c.clock.write.Load()))
	quiet := every - every/20
	if heard >= quiet || spoke >= quiet {
		c.out.control(opPing, nil)
	}
	if spoke >= quiet {
		c.out.answer(func(b []byte) []byte { return appendHeartbeat(b, now) })
	}
	next := every
	if at := c.expires.Load(); at != 0 {
		next = min(next, max(time.Millisecond, time.UnixMilli(at).Sub(now)))
	}
	if heard < quiet && spoke < quiet {
		next = min(next, every-max(heard, spoke))
	}
	return max(next, time.Millisecond)
}

// closeLabel keeps the label set of the metric closed.
func closeLabel(code int) string {
	switch code {
	case closeNormal:
		return "1000"
	case closeGoingAway:
		return "1001"
	case closeBinary:
		return "1003"
	case 1006:
		return "1006"
	case closeUTF8:
		return "1007"
	case closeTooBig:
		return "1009"
	case closeRestart:
		return "1012"
	case closeInternal:
		return "4000"
	case closeHelloTimeout:
		return "4002"
	case closeHeartbeat:
		return "4003"
	case closeSlow:
		return "4004"
	case closeOverloaded:
		return "4006"
	case closeTokenExpired:
		return "4007"
	case closeRateLimited:
		return "4008"
	case closeProtocol:
		return "4500"
	case closeUnauthenticated:
		return "4501"
	case closeForbidden:
		return "4502"
	case closeVersion:
		return "4503"
	case closeLimit:
		return "4504"
	default:
		return "other"
	}
}

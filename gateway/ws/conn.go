package ws

import (
	"context"
	"errors"
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
// something to write. Pongs and the answer to a close frame go through the queue as well.
//
// It keeps the socket only, and reads and writes its frames itself. Of the libraries, which
// have shaken hands, nothing stays: the wrapper of contrib goes back to a pool and becomes
// another client's, and their buffers are most of what an idle socket would hold.
type conn struct {
	*handler
	in    *frames
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
	idle    bucket // of frames that say nothing; the reader's
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

func (s *Sockets) newConn(socket net.Conn, credential service.Credential) *conn {
	ctx, cancel := context.WithCancel(s.Alive)
	c := &conn{net: socket, writer: make(chan struct{}), cancel: cancel}
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
	c.idle = newBucket(s.Limits.ControlFramesPerSecond, s.Limits.ControlFramesBurst, now)
	return c
}

// socketOf returns the socket itself. The library hands out a wrapper of fasthttp's,
// which is needed only to read what came right behind the request: see early.
func socketOf(ws *websocket.Conn) net.Conn {
	if wrapper, ok := ws.NetConn().(interface{ UnsafeConn() net.Conn }); ok {
		return wrapper.UnsafeConn()
	}
	return ws.NetConn()
}

// Start serves a connection in a goroutine of its own, to its end; then the socket is
// closed and nothing of the connection runs any more.
func (s *Sockets) Start(ws *websocket.Conn, credential service.Credential) {
	socket := socketOf(ws)
	c := s.newConn(socket, credential)
	c.in = newFrames(socket, c.raw, early(ws.NetConn(), socket))
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
	if c.guest != nil {
		c.waiting.remove(c.guest)
	}
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
func (c *conn) helloSaid(client string) {
	c.waiting.remove(c.guest)
	c.guest = nil
	c.wasOpen.Store(true)
	c.Metrics.Connections.WithLabelValues("before_hello").Dec()
	c.Metrics.Connections.WithLabelValues("open").Inc()
	c.Log.Debug("connection open", "conn", c.name, "tenant", string(c.who.Tenant), "user", string(c.who.User), "client", conversation.Excerpt(client, 40))
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
	for c.taken(c.in.next()) {
	}
}

// taken deals with the client's next frame; more is false when none can follow.
func (c *conn) taken(h header, err error) (more bool) {
	switch {
	case err != nil:
	case h.op >= protocol.OpClose:
		err = c.control(h.op)
	case c.closing(): // the rest is not for us; only the answer to our close frame is
		err = c.in.skip()
	default:
		err = c.data(h)
	}
	if err != nil {
		c.readFailed(err)
		return false
	}
	c.waitForRoom()
	return true
}

// data reads a frame of a message, bounded, and hands on the message that is complete.
func (c *conn) data(h header) (err error) {
	switch {
	case h.op == opBinary:
		c.touch(c.Now())
		c.Metrics.FramesIn.Inc()
		c.closeWith(protocol.CloseBinary, "frames are text")
		return c.in.skip()
	case h.op == opContinuation && h.length == 0 && !h.final:
		c.mayGoOn() // nothing at all: it costs like a ping
		return nil
	case c.Limits.FrameBytes > 0 && h.length > int64(c.Limits.FrameBytes-len(c.buf)):
		c.touch(c.Now())
		c.tooBig()
		return c.in.skip()
	}
	if h.op == protocol.OpText && h.final {
		if whole, ok := c.in.whole(); ok { // as almost all are: it need not be copied
			c.touch(c.Now())
			c.message(whole)
			return nil
		}
	}
	if c.buf, err = c.in.payload(c.buf); err != nil || !h.final {
		return err
	}
	c.touch(c.Now())
	c.message(c.buf)
	c.buf = nil
	return nil
}

// message hands on a whole message.
func (c *conn) message(b []byte) {
	c.Metrics.FramesIn.Inc()
	c.Metrics.BytesIn.Add(float64(len(b)))
	if !utf8.Valid(b) {
		c.closeWith(protocol.CloseUTF8, "text must be UTF-8")
		return
	}
	c.handle(b)
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

// control reads a control frame and lets the writer answer it.
func (c *conn) control(op byte) error {
	payload, err := c.in.small()
	if err != nil {
		return err
	}
	switch op {
	case protocol.OpPing:
		if c.mayGoOn() {
			c.out.Pong(payload)
		}
	case protocol.OpPong:
		c.mayGoOn()
	case protocol.OpClose:
		code, err := closeCode(payload)
		if err != nil {
			return err
		}
		c.closeWith(code, "")
		return errClosed
	}
	return nil
}

// errClosed ends the reading behind the client's close frame.
var errClosed = errors.New("the client has closed")

// mayGoOn notes a frame that has no answer which could refuse it; one too many ends the
// connection. false = nothing comes of it.
func (c *conn) mayGoOn() bool {
	if c.closing() {
		return false
	}
	now := c.Now()
	if wait, _ := c.idle.allow(now); wait > 0 {
		c.Metrics.Refused.WithLabelValues("control_frames_per_second").Inc()
		c.closeWith(protocol.CloseRateLimited, "too many control frames")
		return false
	}
	c.touch(now)
	return true
}

// readFailed tells the client why the connection ends, if it can still be reached.
func (c *conn) readFailed(err error) {
	var broken frameError
	switch {
	case errors.As(err, &broken):
		c.closeWith(protocol.CloseFraming, string(broken))
		c.in.drain()
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

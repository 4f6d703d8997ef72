package rest

import (
	"bufio"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// stream is one server-sent event stream. It is a follower like a socket: the
// same queue, the same subscription, the same frames in another wrapping. Its writer is
// the goroutine of the HTTP library.
type stream struct {
	*service.Services
	key    conversation.SessionKey // that is followed; zero in a stream of the feed of chats
	source source
	out    *fanout.Queue
	ctx    context.Context
	cancel context.CancelFunc
	net    net.Conn // of the request, for deadlines only
	once   sync.Once
	retry  atomic.Int64 // when the client shall come back, once it was told that the server goes away
}

// source is what fills the queue of a stream.
type source interface {
	Ended() bool // nothing more comes
	Close()
}

// stream serves GET /api/sessions/:id/stream.
func (s *API) stream(c *fiber.Ctx) error {
	key, err := sessionOf(c)
	if err != nil {
		return err
	}
	cursor := c.Get("Last-Event-ID")
	if cursor == "" {
		cursor = c.Query("since")
	}
	since, resumes, err := sequence(cursor, "since")
	if err != nil {
		return err
	}
	log := c.Query("log")
	who := door.Principal(c)
	free, err := s.StreamSlot(c, who)
	if err != nil {
		return err
	}
	sub, err := s.subscribe(who, fanout.Options{Key: key, Redact: who.Redact(), Drafts: true, Begin: func(v conversation.View) fanout.Start {
		from := service.Resumption{Since: v.Head}
		if resumes {
			from = service.Cursor{Since: (*uint64)(&since), Log: log}.Resume(v)
		}
		s.Metrics.Resumes.WithLabelValues(from.Result()).Inc()
		return fanout.Start{Since: from.Since, Answer: func(b []byte) []byte {
			return protocol.AppendStreamHello(b, v, from.Since, from.Resumed, from.Reason)
		}}
	}})
	if err != nil {
		free()
		return err
	}
	st := newStream(s, c, sub.Queue())
	st.key, st.source = key, sub
	s.Stream(c, who, door.EventStream, st, free)
	return nil
}

// newStream is the stream that answers a request.
func newStream(s *API, c *fiber.Ctx, out *fanout.Queue) *stream {
	st := &stream{Services: s.Services, out: out, net: c.Context().Conn()}
	st.ctx, st.cancel = context.WithCancel(s.Alive)
	return st
}

// subscribe follows a session, within the time that a request has.
func (s *API) subscribe(who *service.Principal, o fanout.Options) (sub *fanout.Subscription, err error) {
	ctx, cancel := s.Deadline()
	defer cancel()
	if o.As, err = s.ReadsAs(ctx, who, o.Key); err != nil {
		return nil, err
	}
	sub, _, err = s.Hub.Subscribe(ctx, s.Sessions, s.Limits, o)
	if err != nil && ctx.Err() != nil {
		err = door.ErrNoAnswer
	}
	return sub, err
}

// Write is the stream's writer.
func (st *stream) Write(w *bufio.Writer) {
	if !st.send(w, door.AppendRetry(nil, door.Retry())) {
		return
	}
	quiet := time.NewTicker(st.Times.Comment)
	defer quiet.Stop()
	scratch := make([]byte, 0, 4096)
	var text []byte
	for {
		t := st.out.Take(st.ctx, scratch)
		switch {
		case t.Err != nil:
			if st.ctx.Err() == nil {
				st.Log.Error("replay failed", "session", string(st.key.Session), "error", t.Err)
			}
			return
		case t.Frames > 0:
			text = text[:0]
			for b := t.Data; len(b) > 0; {
				var op byte
				var payload []byte
				op, payload, b = protocol.NextFrame(b)
				if op == protocol.OpText {
					text = st.appendServerSent(text, payload)
				}
			}
			if !st.send(w, text) {
				return
			}
			st.Metrics.FramesOut.Add(float64(t.Frames))
			st.Metrics.BytesOut.Add(float64(len(text)))
			st.Metrics.Writes.Inc()
			if cap(text) > protocol.MaxPooled {
				text = nil
			}
			quiet.Reset(st.Times.Comment)
			if t.Last {
				return
			}
			continue
		case t.Ended, st.source.Ended():
			return
		}
		select {
		case <-st.out.Wake():
		case <-quiet.C:
			if !st.send(w, []byte(": hb\n\n")) {
				return
			}
		}
	}
}

// send hands text to the HTTP library. A client that takes nothing for longer
// than Times.Write is cut off, as on a socket.
func (st *stream) send(w *bufio.Writer, text []byte) bool {
	_ = st.net.SetWriteDeadline(st.Now().Add(st.Times.Write))
	_, err := w.Write(text)
	return err == nil && w.Flush() == nil
}

// appendServerSent wraps a frame: durable ones have an id, so that a browser
// resumes by itself. What is no frame is an event already.
func (st *stream) appendServerSent(dst, payload []byte) []byte {
	if payload[0] != '{' {
		return append(dst, payload...)
	}
	kind, seq := protocol.Peek(payload)
	if retry := st.retry.Load(); retry > 0 && string(kind) == "goaway" {
		dst = door.AppendRetry(dst, time.Duration(retry))
	}
	if seq != nil {
		dst = append(dst, "id: "...)
		dst = append(dst, seq...)
		dst = append(dst, '\n')
	}
	dst = append(dst, "event: "...)
	dst = append(dst, kind...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, payload...)
	return append(dst, "\n\n"...)
}

func (st *stream) GoAway(code int, reason string, retryIn time.Duration) {
	st.retry.Store(int64(retryIn))
	st.out.Answer(func(b []byte) []byte { return protocol.AppendGoaway(b, code, reason, retryIn) })
}

// Close ends the stream after what is queued. There is no close frame in a
// stream: a comment ends it.
func (st *stream) Close() {
	st.once.Do(func() { st.out.Finish(protocol.AppendFrame(nil, protocol.OpClose, func(b []byte) []byte { return b })) })
}

func (st *stream) ForceClose() {
	st.cancel()
	st.out.Abandon()
	_ = st.net.Close()
}

// LeaseEnded ends the stream: its credential has expired or was taken back. The client
// learns why; when it comes back it is refused, and a browser does not try again then.
func (st *stream) LeaseEnded(why *conversation.Error) {
	code := protocol.CloseUnauthenticated
	if why.Code == conversation.TokenExpired {
		code = protocol.CloseTokenExpired
	}
	st.GoAway(code, why.Message, 0)
	st.Close()
}

// Release gives back what the stream holds, after its last write.
func (st *stream) Release() {
	st.cancel()
	st.source.Close()
	st.out.Abandon()
}

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"parley/conversation"

	"github.com/gofiber/fiber/v2"
)

// stream is one server-sent event stream. It is a follower like a socket: the
// same outbox, the same feed, the same frames in another wrapping. Its writer is
// the goroutine of the HTTP library.
type stream struct {
	*core
	key    conversation.SessionKey
	out    *outbox
	feed   *feed
	ctx    context.Context
	cancel context.CancelFunc
	net    net.Conn // of the request, for deadlines only
	once   sync.Once
}

// stream serves GET /api/sessions/:id/stream. Everything that the writer needs is
// taken out of the request before it runs: the request is reused by then.
func (s *Server) stream(c *fiber.Ctx) error {
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
	if s.draining.Load() {
		return errDraining
	}
	if over(int(s.streams.Load()), s.cfg.Limits.Streams) {
		s.m.Refused.WithLabelValues("streams").Inc()
		return conversation.Errorf(conversation.Overloaded, "there are too many streams open")
	}
	who := principal(c)
	st := &stream{core: s.core, key: key, out: newOutbox(s.cfg.Limits, s.m), net: c.Context().Conn()}
	st.feed = &feed{out: st.out, key: key, as: who.User, redact: who.redact(), deltas: true}
	st.ctx, st.cancel = context.WithCancel(s.alive)
	if err := s.beginStream(st, since, resumes); err != nil {
		s.hub.remove(st.feed)
		st.cancel()
		return err
	}
	if !s.conns.add(st) {
		st.depart()
	}
	s.streams.Add(1)
	s.m.Streams.Inc()
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-cache, no-transform")
	c.Set("X-Accel-Buffering", "no")
	c.Context().SetConnectionClose() // the deadlines set below must not meet another request
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer func() {
			s.hub.remove(st.feed)
			st.out.abandon()
			st.cancel()
			s.streams.Add(-1)
			s.m.Streams.Dec()
			if r := recover(); r != nil {
				s.m.Panics.Inc()
				s.log.Error("panic", "where", "stream", "panic", r, "stack", stack())
			}
			s.conns.remove(st) // last: a drain that sees nobody left may end the process
		}()
		st.write(w)
	})
	return nil
}

// beginStream subscribes, asks for the session's state and starts the replay.
func (s *Server) beginStream(st *stream, since conversation.Seq, resumes bool) error {
	s.hub.add(st.feed)
	ctx, cancel := s.deadline()
	defer cancel()
	answer := make(chan error, 1)
	s.sessions.View(st.key, st.feed.as, func(v conversation.View, err error) {
		if err == nil && since > v.Head {
			err = conversation.Errorf(conversation.Conflict, "since is beyond the log's head, %d: the log is another one", v.Head)
		}
		if err != nil {
			answer <- err
			return
		}
		result := "resumed"
		if !resumes {
			since, result = v.Head, "tail"
		}
		s.m.Resumes.WithLabelValues(result).Inc()
		if st.feed.begin(item{}, since, v.Head, len(v.Drafts) > 0, nil) {
			st.feed.drafts(v)
		}
		answer <- nil
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return errNoAnswer
	}
}

// write is the stream's writer.
func (st *stream) write(w *bufio.Writer) {
	if !st.send(w, []byte("retry: 2000\n\n")) {
		return
	}
	quiet := time.NewTicker(st.cfg.Times.Comment)
	defer quiet.Stop()
	scratch := make([]byte, 0, 4096)
	var text []byte
	for {
		t := st.out.take(scratch)
		if t.frames > 0 {
			text = text[:0]
			for b := t.data; len(b) > 0; {
				var op byte
				var payload []byte
				op, payload, b = nextFrame(b)
				if op == opText {
					text = appendServerSent(text, payload)
				}
			}
			if !st.send(w, text) {
				return
			}
			if cap(text) > maxPooled {
				text = nil
			}
			st.m.FramesOut.Add(float64(t.frames))
			st.m.BytesOut.Add(float64(len(text)))
			st.m.Writes.Inc()
			quiet.Reset(st.cfg.Times.Comment)
			if t.last {
				return
			}
		}
		if t.behind != nil {
			live, err := st.catchUp(st.ctx, t.behind)
			if err != nil {
				if st.ctx.Err() == nil {
					st.log.Error("replay failed", "session", string(st.key.Session), "error", err)
				}
				return
			}
			if live {
				st.resumeDrafts(st.ctx, t.behind)
			}
			continue
		}
		if t.frames > 0 {
			continue
		}
		if t.ended || st.feed.dead() {
			return
		}
		select {
		case <-st.out.wake:
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
	_ = st.net.SetWriteDeadline(st.now().Add(st.cfg.Times.Write))
	_, err := w.Write(text)
	return err == nil && w.Flush() == nil
}

// appendServerSent wraps a frame: durable ones have an id, so that a browser
// resumes by itself.
func appendServerSent(dst, payload []byte) []byte {
	kind, seq := peek(payload)
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

// peek reads the type of a frame and its seq, if it has one, from where the
// encoder puts them: {"type":"…","session":"…","seq":…
func peek(payload []byte) (kind, seq []byte) {
	const head = `{"type":"`
	rest := payload[len(head):]
	end := bytes.IndexByte(rest, '"')
	kind, rest = rest[:end], rest[end+1:]
	const session = `,"session":"`
	if !bytes.HasPrefix(rest, []byte(session)) {
		return kind, nil
	}
	rest = rest[len(session):]
	rest = rest[bytes.IndexByte(rest, '"')+1:] // a session's id holds no quotes
	const mark = `,"seq":`
	if !bytes.HasPrefix(rest, []byte(mark)) {
		return kind, nil
	}
	rest = rest[len(mark):]
	n := 0
	for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
		n++
	}
	return kind, rest[:n]
}

func (st *stream) goaway(code int, reason string, retryIn time.Duration) {
	st.out.answer(func(b []byte) []byte { return appendGoaway(b, code, reason, retryIn) })
}

// depart ends the stream after what is queued. There is no close frame in a
// stream: a comment ends it.
func (st *stream) depart() {
	st.once.Do(func() { st.out.finish(appendFrame(nil, opClose, func(b []byte) []byte { return b })) })
}

func (st *stream) forceDown() {
	st.cancel()
	st.out.abandon()
	_ = st.net.Close()
}

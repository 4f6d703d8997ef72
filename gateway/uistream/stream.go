package uistream

import (
	"context"
	"errors"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// headerStream says that the answer is a UI message stream, and of which version.
const headerStream = "X-Vercel-Ai-Ui-Message-Stream"

// maxHeld is how many bytes of what was stored before are sent together.
const maxHeld = 16 << 10

// tell answers a request with the message of a task. The stream ends when the task has ended, or
// waits for an answer. It is cut off where nothing more can be said of it, as when the server goes
// away: a stream that ends would be a message that has ended.
func (a *api) tell(ctx context.Context, c *fiber.Ctx, who *service.Principal, t told, free func()) error {
	f, err := a.Follow(ctx, who, exchange.From{Key: t.key, Since: t.since, After: t.after, Whole: t.goesOn})
	if err != nil && conversation.AsError(err).Code == conversation.Conflict && !t.begins {
		// What the client has seen is beyond the end of the log: it is of another chat, or the log is an older one
		// again. The stream begins, and says so, as behind an id of another message.
		t.after, t.goesOn = 0, false
		f, err = a.Follow(ctx, who, exchange.From{Key: t.key, Since: t.since})
	}
	if err != nil {
		return err
	}
	c.Set(headerStream, "v1")
	a.ServeEvents(c, who, free, func(ctx context.Context, out *door.EventWriter) {
		defer f.Close()
		s := newStream(t)
		if !s.write(ctx, a, f, out) {
			out.ForceClose()
		}
	})
	return nil
}

// stream is the writer of one.
type stream struct {
	told
	teller *teller
	begun  bool
	held   []byte
}

func newStream(t told) *stream {
	return &stream{told: t, teller: newTeller(t.key.Session, t.task, names{})}
}

// write is true when all was told.
func (s *stream) write(ctx context.Context, a *api, f *exchange.Follower, out *door.EventWriter) bool {
	for {
		n, err := next(ctx, a, f)
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			if !out.Comment() {
				return false
			}
			continue
		case errors.Is(err, service.ErrNoSession):
			gone := chunk{kind: failure, text: "the chat was erased, or may not be read any more"}
			return out.Send(append(gone.appendEvent(s.held, 0), done...))
		default:
			return false
		}
		s.add(n)
		if rests := s.teller.run.Ended() || s.teller.synced && s.teller.run.Rests(); rests {
			s.end()
			return out.Send(s.held)
		}
		if len(s.held) > maxHeld || s.teller.synced && len(s.held) > 0 {
			if !out.Send(s.held) {
				return false
			}
			s.held = s.held[:0]
		}
	}
}

// next is the next note, or an error for a silence in which a comment is due.
func next(ctx context.Context, a *api, f *exchange.Follower) (*exchange.Note, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Times.Comment)
	defer cancel()
	return f.Next(ctx)
}

// add takes the next note.
func (s *stream) add(n *exchange.Note) {
	s.teller.names.add(n)
	old := n.Seen >= exchange.MaxNumbers || !n.Own && n.At < s.after
	if !old && !s.begun {
		s.begin()
	}
	chunks := s.teller.add(n)
	if old {
		return
	}
	i := 0
	for j := range chunks {
		if i >= n.Seen && !s.known(&chunks[j]) {
			at := exchange.Number(0)
			if n.Own {
				at = n.Number(min(i, exchange.MaxNumbers-1))
			}
			s.held = chunks[j].appendEvent(s.held, at)
		}
		if !chunks[j].more {
			i++
		}
	}
}

// known is true for a part that a client which goes on with a message has of it already: it may
// have loaded the message since its stream has ended.
func (s *stream) known(c *chunk) bool {
	switch whole, has := s.has[c.call+c.id]; c.kind {
	case toolInput:
		return whole
	case toolBegins, toolGrows, textStart, textDelta, textEnd, steering:
		return has
	}
	return false
}

// begin tells what the stream is of. A client that goes on with a message in which a model speaks
// forgets what it has of the step, which is told to it again.
func (s *stream) begin() {
	s.begun = true
	if s.goesOn && !s.begins {
		return
	}
	first := s.teller.begin()
	s.held = first.appendEvent(s.held, 0)
	if s.goesOn && s.teller.works {
		for _, c := range s.teller.restart() {
			s.held = c.appendEvent(s.held, 0)
		}
	}
}

// end tells that nothing more comes.
func (s *stream) end() {
	if !s.begun {
		s.begin()
	}
	for _, c := range s.teller.end() {
		s.held = c.appendEvent(s.held, 0)
	}
	s.held = append(s.held, done...)
}

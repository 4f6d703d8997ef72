package a2a

import (
	"context"
	"errors"
	"math"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// from says where a stream begins.
type from struct {
	since conversation.Seq // the task's first event is behind it
	upto  conversation.Seq // what events up to there have brought is part of the task that comes first
	after exchange.Number  // the client goes on behind this number; 0 = it begins
	rests bool             // the stream ends also where the task waits for an answer
}

// newest is the event of a stream that begins with the task as it is now.
const newest = conversation.Seq(math.MaxUint64)

// stream makes of notes the events of an answer: the task first, then what happens to it.
type stream struct {
	*tale
	from
	event  func(at exchange.Number, value func(dst []byte) []byte) // takes an event; at 0 = it has no number
	whole  bool                                                    // texts are told once they have ended; and who goes on is not told the task first
	begun  bool                                                    // the task was told
	synced bool                                                    // what comes is new
	last   conversation.Seq

	// Of an answer with a stream:

	head []byte // what stands before the value of an event, and behind it
	tail string
	held []byte
}

func newStream(t *tale, f from, rpc []byte) *stream {
	s := &stream{tale: t, from: f}
	s.event = s.hold
	if rpc != nil {
		s.head, s.tail = appendHead(nil, rpc, "result"), "}"
	}
	return s
}

// add takes the next note. true = nothing more comes.
func (s *stream) add(n *exchange.Note) bool {
	old := n.Kind != exchange.Synced && s.old(n)
	s.synced = s.synced || n.Kind == exchange.Synced
	if !old && !s.begun {
		s.begin()
	}
	if n.Event != nil {
		s.last = n.Event.Seq
	}
	if s.tale.add(n) && !old {
		s.tell(n)
	}
	return s.begun && (s.run.Ended() || s.synced && s.rests && s.run.Rests())
}

// old is true for a note that the client knows, or will be told with the task.
func (s *stream) old(n *exchange.Note) bool {
	switch {
	case !n.Own:
		return !s.begun
	case s.after > 0:
		return n.Seen > 0
	default:
		return n.Event != nil && n.Event.Seq <= s.upto && !s.synced
	}
}

// begin tells the task. Who goes on has its texts and its history.
func (s *stream) begin() {
	s.begun = true
	if s.whole && s.after > 0 {
		return
	}
	v := view{history: all, artifacts: true, number: exchange.NumberAt(min(s.upto, max(s.last, s.since)))}
	if s.after > 0 {
		v = view{number: s.after}
	}
	s.event(v.number, func(dst []byte) []byte {
		return object(dst, func(o *protocol.Object) {
			o.Key("task")
			o.Bytes = s.appendTask(o.Bytes, v)
		})
	})
}

// hold adds an event to what is to be sent.
func (s *stream) hold(at exchange.Number, value func(dst []byte) []byte) {
	if at > 0 {
		s.held = append(append(append(s.held, "id: "...), at.String()...), '\n')
	}
	s.held = append(append(s.held, "data: "...), s.head...)
	s.held = append(append(value(s.held), s.tail...), "\n\n"...)
}

// tell tells what a note of the task says.
func (s *stream) tell(n *exchange.Note) {
	switch n.Kind {
	case exchange.Status:
		s.status(n, s.questions(), s.summary)
	case exchange.Asked:
		switch q := n.Question; {
		case s.run.Status == conversation.TaskAwaiting:
			s.status(n, s.questions(), nil)
		case !q.Asked.Blocking: // the others are told when the task waits for them
			s.status(n, []*conversation.QuestionView{q}, nil)
		}
	case exchange.Closed:
		if open := s.questions(); len(open) > 0 {
			s.status(n, open, nil)
		}
	case exchange.Resolved:
		s.status(n, s.questions(), func(o *protocol.Object) {
			o.Key("receipt")
			o.Bytes = s.told[len(s.told)-1].append(o.Bytes)
		})
	case exchange.TextGrew:
		if s.whole {
			return
		}
		s.artifact(n, n.Delta, n.Item.Runes > utf8.RuneCountInString(n.Delta), false)
	case exchange.TextEnded, exchange.TextFinal:
		if s.whole {
			s.artifact(n, n.Item.Text, false, true)
			return
		}
		s.artifact(n, "", n.Kind == exchange.TextFinal || n.Item.Runes > 0, true)
	case exchange.TextDropped:
		if !s.whole { // else nothing was told of it
			s.artifact(n, "", false, true)
		}
	}
}

// updates begins an event that changes the task.
func (s *stream) updates(o *protocol.Object) {
	o.Text("taskId", string(s.task))
	o.Text("contextId", s.context)
}

// status tells the task's status, with what is asked, and what more there is to say.
func (s *stream) status(n *exchange.Note, questions []*conversation.QuestionView, more func(o *protocol.Object)) {
	at := n.Number(0)
	s.event(at, func(dst []byte) []byte {
		return object(dst, func(o *protocol.Object) {
			o.Key("statusUpdate")
			o.Bytes = object(o.Bytes, func(o *protocol.Object) {
				s.updates(o)
				o.Key("status")
				o.Bytes = s.appendStatus(o.Bytes, questions)
				note(o, func(o *protocol.Object) {
					number(o, at)
					if more != nil {
						more(o)
					}
				})
			})
		})
	})
}

// artifact tells a piece of a text, or that it has ended. A text that counts no more is emptied:
// the protocol does not take an artifact away.
func (s *stream) artifact(n *exchange.Note, piece string, more, ended bool) {
	at, dropped := n.Number(0), n.Kind == exchange.TextDropped
	s.event(at, func(dst []byte) []byte {
		return object(dst, func(o *protocol.Object) {
			o.Key("artifactUpdate")
			o.Bytes = object(o.Bytes, func(o *protocol.Object) {
				s.updates(o)
				o.Key("artifact")
				o.Bytes = appendArtifact(o.Bytes, n.Item, piece, ended && !dropped)
				o.Flag("append", more)
				o.Flag("lastChunk", ended)
				note(o, func(o *protocol.Object) {
					number(o, at)
					o.Flag("dropped", dropped)
				})
			})
		})
	})
}

// follow answers a request with a stream, and gives its place back (StreamSlot). It is cut off where nothing more can be said, as when the
// server goes away: the end of a stream would be the end of what it tells.
func (a *api) follow(ctx context.Context, c *fiber.Ctx, who *service.Principal, free func(), t *tale, f from, rpc []byte) error {
	follower, err := a.Follow(ctx, who, exchange.From{Key: t.key, Since: f.since, After: f.after, Whole: f.after > 0})
	if err != nil {
		free()
		return err
	}
	if rpc != nil {
		rpc = append([]byte(nil), rpc...)
	}
	s := newStream(t, f, rpc)
	a.ServeEvents(c, who, free, func(ctx context.Context, out *door.EventWriter) {
		defer follower.Close()
		if !s.write(ctx, a, follower, out, rpc) {
			out.ForceClose()
		}
	})
	return nil
}

// write is true when all was told.
func (s *stream) write(ctx context.Context, a *api, f *exchange.Follower, out *door.EventWriter, rpc []byte) bool {
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
			gone := a.toldOf(errNoTask)
			if rpc != nil {
				s.held = appendAnswer(append(s.held, "data: "...), rpc, "error", gone.appendRPC)
			} else {
				s.held = gone.appendHTTP(append(s.held, "event: error\ndata: "...))
			}
			return out.Send(append(s.held, "\n\n"...))
		default:
			return false
		}
		if s.add(n) {
			return out.Send(s.held)
		}
		if len(s.held) > maxHeld || s.synced && len(s.held) > 0 {
			if !out.Send(s.held) {
				return false
			}
			s.held = s.held[:0]
		}
	}
}

// maxHeld is how many bytes of what was stored before are sent together.
const maxHeld = 16 << 10

// next is the next note, or an error for a silence in which a comment is due.
func next(ctx context.Context, a *api, f *exchange.Follower) (*exchange.Note, error) {
	ctx, cancel := context.WithTimeout(ctx, a.Times.Comment)
	defer cancel()
	return f.Next(ctx)
}

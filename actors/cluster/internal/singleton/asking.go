package singleton

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"parley/actors/cluster/internal/speech"
	"parley/conversation"
	"parley/conversation/member"
)

// Bounds of requests.
const (
	maxBody    = 16 << 20            // bytes of a request, an answer, and what is said meanwhile
	maxAnswers = 1024                // requests that a node answers at a time
	maxHeard   = 64                  // what was told meanwhile and not heard yet; more is left out
	longest    = 30 * 24 * time.Hour // of a request whose context has no deadline; a link that breaks ends it
	firstLook  = 20 * time.Millisecond
	maxLook    = 250 * time.Millisecond
)

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxBody>>20)

// Hear takes, on the node that asks, what the node that runs a singleton says and asks while a
// request is under way. What it returns for a thing that was only told is passed over. Its
// context ends with the request.
type Hear func(ctx context.Context, body []byte) ([]byte, error)

// Answerer answers a request on the node that runs the singleton. Its context ends when nobody
// waits for the answer any more. taken is false if nothing was done, nor will be: the
// request may be sent again.
type Answerer func(ctx context.Context, body []byte, back Back) (answer []byte, taken bool)

// Back is the way to who has asked.
type Back struct {
	tell func(body []byte)
	ask  func(ctx context.Context, body []byte) ([]byte, error)
}

// Tell lets the asker hear something. It does not block, and may get lost.
func (b Back) Tell(body []byte) { b.tell(body) }

// Ask asks the asker. The error is member.ErrUnanswered, what Hear has returned as an empty
// answer, or the context's.
func (b Back) Ask(ctx context.Context, body []byte) ([]byte, error) { return b.ask(ctx, body) }

// SwitchOptions are what a Switch works with.
type SwitchOptions struct {
	Self  conversation.Member
	Owner func(name string) (conversation.Member, bool) // whose a singleton is by the ring
	// Answer is that of a singleton that runs here now; nil = it does not.
	Answer func(name string) Answerer
	Send   func(to conversation.Member, body []byte)
	// Request asks another node; an error that is not member.ErrNotRunning says that it may
	// have got the request.
	Request func(to conversation.Member, body []byte, wait time.Duration, done func([]byte, error))
	Log     *slog.Logger
}

// Switch brings requests to the node that runs a singleton, and answers to who has asked.
type Switch struct {
	o SwitchOptions

	mu     sync.Mutex
	last   uint64
	asked  map[uint64]*asking
	taken  map[place]*answering
	change chan struct{} // closed, and made anew, when singletons may be elsewhere
}

// place says who has asked.
type place struct {
	from conversation.Member
	id   uint64
}

// asking is a request of this node.
type asking struct {
	to    conversation.Member
	heard chan heard
}

// heard is what comes before the answer; reply is nil if it was only told.
type heard struct {
	body  []byte
	reply func([]byte)
}

// answering is a request to this node.
type answering struct {
	name   string
	from   place
	answer Answerer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// errStopped ends what is still asked of a singleton that has ended.
var errStopped = errors.New("the singleton has ended")

// NewSwitch makes a Switch.
func NewSwitch(o SwitchOptions) *Switch {
	return &Switch{o: o, asked: map[uint64]*asking{}, taken: map[place]*answering{}, change: make(chan struct{})}
}

// Ask has a request answered by the node that runs a singleton, and waits for so long that one
// does: member.ErrNotRunning then, and nothing was done. After member.ErrUnanswered something
// may have been done. Other errors are the context's.
func (s *Switch) Ask(ctx context.Context, name string, body []byte, wait time.Duration, hear Hear) ([]byte, error) {
	if len(body) > maxBody {
		return nil, fmt.Errorf("the request is too large: %w", errTooLarge)
	}
	until := time.NewTimer(wait)
	defer until.Stop()
	for look := firstLook; ; look = min(2*look, maxLook) {
		s.mu.Lock()
		change := s.change
		s.mu.Unlock()
		answer, err := s.once(ctx, name, body, hear)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !errors.Is(err, member.ErrNotRunning) {
			return answer, err
		}
		again := time.NewTimer(look)
		select {
		case <-again.C:
		case <-change:
		case <-until.C:
			again.Stop()
			return nil, err
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		}
		again.Stop()
	}
}

func (s *Switch) once(ctx context.Context, name string, body []byte, hear Hear) ([]byte, error) {
	to, ok := s.o.Owner(name)
	switch {
	case !ok:
		return nil, member.ErrNotRunning
	case to == s.o.Self:
		return s.here(ctx, name, body, hear)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	a := &asking{to: to, heard: make(chan heard, maxHeard)}
	s.mu.Lock()
	s.last++
	id := s.last
	s.asked[id] = a
	s.mu.Unlock()
	type result struct {
		body []byte
		err  error
	}
	done := make(chan result, 1)
	wait := longest
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline)+time.Second)
	}
	s.o.Request(to, (&speech.Errand{What: speech.ErrandAsk, ID: id, Name: name, Body: body}).Append(nil), wait, func(body []byte, err error) {
		done <- result{body, err}
		end() // what is asked meanwhile helps nobody any more
	})
	defer func() {
		s.mu.Lock()
		delete(s.asked, id)
		s.mu.Unlock()
	}()
	over := func(r result) ([]byte, error) {
		var answer speech.ErrandAnswer
		switch {
		case errors.Is(r.err, member.ErrNotRunning):
			return nil, r.err
		case r.err != nil:
			s.cancel(to, id)
			return nil, fmt.Errorf("%w: %w", member.ErrUnanswered, r.err)
		case answer.Read(r.body) != nil || answer.Lost:
			return nil, member.ErrUnanswered
		case answer.Refused:
			return nil, member.ErrNotRunning
		}
		return answer.Body, nil
	}
	for {
		select {
		case r := <-done:
			return over(r)
		case h := <-a.heard:
			out, err := hear(ctx, h.body)
			if h.reply != nil {
				h.reply((&speech.ErrandAnswer{Lost: err != nil || len(out) > maxBody, Body: out}).Append(nil))
			}
		case <-ctx.Done():
			select {
			case r := <-done:
				return over(r)
			default:
			}
			s.cancel(to, id)
			return nil, ctx.Err()
		}
	}
}

func (s *Switch) cancel(to conversation.Member, id uint64) {
	s.o.Send(to, (&speech.Errand{What: speech.ErrandCancel, ID: id}).Append(nil))
}

// here has a request of this node answered by this node.
func (s *Switch) here(ctx context.Context, name string, body []byte, hear Hear) ([]byte, error) {
	s.mu.Lock()
	s.last++
	id := s.last
	s.mu.Unlock()
	a := s.enter(ctx, place{s.o.Self, id}, name)
	if a == nil {
		return nil, member.ErrNotRunning
	}
	r := s.answer(a, body, Back{
		tell: func(body []byte) { _, _ = hear(ctx, body) },
		ask: func(ctx context.Context, body []byte) ([]byte, error) {
			out, err := hear(ctx, body)
			if err != nil && ctx.Err() != nil {
				return nil, ctx.Err()
			}
			if err != nil {
				return nil, member.ErrUnanswered
			}
			return out, nil
		},
	})
	switch {
	case r.Refused:
		return nil, member.ErrNotRunning
	case r.Lost:
		return nil, member.ErrUnanswered
	}
	return r.Body, nil
}

// enter takes a request for the singleton that runs here; nil = it is refused.
func (s *Switch) enter(ctx context.Context, from place, name string) *answering {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.o.Answer(name)
	if answer == nil || len(s.taken) >= maxAnswers {
		return nil
	}
	a := &answering{name: name, from: from, answer: answer}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	s.taken[from] = a
	return a
}

// answer has a request answered.
func (s *Switch) answer(a *answering, body []byte, back Back) (r speech.ErrandAnswer) {
	defer func() {
		a.cancel(nil)
		s.mu.Lock()
		delete(s.taken, a.from)
		s.mu.Unlock()
		if p := recover(); p != nil {
			s.o.Log.Error("the answer of a singleton panicked", "singleton", a.name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			r = speech.ErrandAnswer{Lost: true}
		}
	}()
	out, taken := a.answer(a.ctx, body, back)
	switch {
	case !taken:
		return speech.ErrandAnswer{Refused: true}
	case errors.Is(context.Cause(a.ctx), errStopped), len(out) > maxBody:
		return speech.ErrandAnswer{Lost: true}
	}
	return speech.ErrandAnswer{Body: out}
}

// Receive takes a message of another node. It does not block; reply is nil if it is none that
// is answered.
func (s *Switch) Receive(from conversation.Member, body []byte, reply func([]byte)) {
	var c speech.Errand
	if err := c.Read(body); err != nil {
		if reply != nil {
			reply((&speech.ErrandAnswer{Refused: true}).Append(nil))
		}
		return
	}
	switch {
	case c.What == speech.ErrandAsk && reply != nil:
		a := s.enter(context.Background(), place{from, c.ID}, c.Name)
		if a == nil {
			reply((&speech.ErrandAnswer{Refused: true}).Append(nil))
			return
		}
		go func() {
			r := s.answer(a, c.Body, s.back(from, c.ID))
			reply(r.Append(nil))
		}()
	case c.What == speech.ErrandCancel:
		s.mu.Lock()
		if a := s.taken[place{from, c.ID}]; a != nil {
			a.cancel(context.Canceled)
		}
		s.mu.Unlock()
	case c.What == speech.ErrandTell, c.What == speech.ErrandBack:
		s.mu.Lock()
		a := s.asked[c.ID]
		s.mu.Unlock()
		if a != nil && a.to == from {
			select {
			case a.heard <- heard{c.Body, reply}:
				return
			default: // it does not listen
			}
		}
		if reply != nil {
			reply((&speech.ErrandAnswer{Lost: true}).Append(nil))
		}
	case reply != nil: // of a newer program
		reply((&speech.ErrandAnswer{Refused: true}).Append(nil))
	}
}

// back is the way to a node that has asked.
func (s *Switch) back(to conversation.Member, id uint64) Back {
	return Back{
		tell: func(body []byte) {
			s.o.Send(to, (&speech.Errand{What: speech.ErrandTell, ID: id, Body: body}).Append(nil))
		},
		ask: func(ctx context.Context, body []byte) ([]byte, error) {
			type result struct {
				body []byte
				err  error
			}
			done := make(chan result, 1)
			s.o.Request(to, (&speech.Errand{What: speech.ErrandBack, ID: id, Body: body}).Append(nil), longest, func(body []byte, err error) {
				done <- result{body, err}
			})
			select {
			case r := <-done:
				var answer speech.ErrandAnswer
				if r.err != nil || answer.Read(r.body) != nil || answer.Lost || answer.Refused {
					return nil, member.ErrUnanswered
				}
				return answer.Body, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
	}
}

// Stopped ends what is still asked of a singleton that has ended here: it gets no answer.
func (s *Switch) Stopped(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.taken {
		if a.name == name {
			a.cancel(errStopped)
		}
	}
}

// Changed lets requests that wait look again who runs what, and ends those of nodes that are
// gone.
func (s *Switch) Changed(living func(conversation.Member) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.change)
	s.change = make(chan struct{})
	for from, a := range s.taken {
		if from.from != s.o.Self && !living(from.from) {
			a.cancel(context.Canceled)
		}
	}
}

package actors

import (
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/metrics"
)

// envelope is a message to a session: a command, a request for a view, or (with
// neither) a request to be in memory. It is answered exactly once.
type envelope struct {
	as               conversation.UserID
	cmd              conversation.Command
	done             func(conversation.Receipt, error)
	view             func(conversation.View, error)
	at               time.Time                   // when it came to the engine; zero for the session's own commands
	owned            bool                        // the store says that this node owns the session
	fromClient       bool                        // it came from outside, by Tell, Create or View
	addsWork         bool                        // of those: it is refused below the soft disk watermark
	duplicateChecked bool                        // the store was asked for its key
	drafts           []conversation.DraftDropped // of a model call's end: what it has shown
	meter            *metrics.Model              // of that call; nil = it is none
	bytes            int                         // of the text that a client has written
	held             *int                        // what the session holds that has taken it, in bytes; nil = none has

	// The answer, until everything that it depends on is durable.
	receipt conversation.Receipt
	err     *conversation.Error
	state   *conversation.View // of a view
	trace   string             // of the receipt's task; "" = it has none

	answered bool
}

// isCommand is true for the messages of a mailbox that clients, or the session itself, wait
// for: commands, and requests for a view.
func isCommand(message any) bool { _, ok := message.(*envelope); return ok }

func (t *envelope) name() string {
	switch {
	case t.cmd != nil:
		return t.cmd.Name()
	case t.view != nil:
		return "view"
	default:
		return "wake"
	}
}

// needs is the right that a user must have for it.
func (t *envelope) needs() access.Right {
	if t.cmd == nil {
		return access.Read
	}
	return t.class().Needs
}

// answer gives the answer, or err instead of it. A second call does nothing. A
// panic of the callback is logged and ends nothing.
func (t *envelope) answer(e *Engine, err *conversation.Error) {
	if t.answered {
		return
	}
	t.answered = true
	defer func() {
		if r := recover(); r != nil {
			e.panicked("the receiver of an answer", r)
		}
	}()
	if err == nil {
		err = t.err
	}
	code := "ok"
	if err != nil {
		code = string(err.Code)
	}
	e.m.Commands.WithLabelValues(t.name(), code).Inc()
	if err == nil && t.receipt.Duplicate {
		e.m.Duplicates.WithLabelValues(t.name()).Inc()
	}
	if t.held != nil {
		*t.held -= t.bytes
		t.held = nil
	}
	if !t.at.IsZero() {
		e.m.Waiting.Dec()
		e.m.WaitingBytes.Sub(float64(t.bytes))
		e.m.CommandSeconds(t.name()).Observe(time.Since(t.at).Seconds())
		if _, say := t.cmd.(conversation.Say); say && err == nil {
			metrics.Observe(e.m.Ack, time.Since(t.at).Seconds(), t.trace)
		}
	}
	switch {
	case t.done != nil && err != nil:
		t.done(conversation.Receipt{}, err)
	case t.done != nil:
		t.done(t.receipt, nil)
	case t.view != nil && err != nil:
		t.view(conversation.View{}, err)
	case t.view != nil:
		t.view(*t.state, nil)
	}
}

// fits counts a command among what a session holds, unless there would be more
// than limit bytes of it. One that finds nothing there always fits.
func (t *envelope) fits(held *int, limit int) bool {
	if *held > 0 && *held+t.bytes > limit && !t.class().Stops {
		return false
	}
	*held += t.bytes
	t.held = held
	return true
}

// refuse answers a command that the machine never sees, because of a limit.
func (t *envelope) refuse(e *Engine, limit string, err *conversation.Error) {
	e.m.Refusals.WithLabelValues(limit).Inc()
	t.answer(e, err)
}

// class says what must be known of the command before it is decided. A view or a
// wake-up has the zero Class.
func (t *envelope) class() conversation.Class {
	if t.cmd == nil {
		return conversation.Class{}
	}
	return t.cmd.Class()
}

package actors

import (
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// outbox delivers commands to one other session of the tree, in order, each one
// until it is acknowledged, which is after the receiver's commit. Its owner is
// an actor that passes delivered and resend on to it.
type outbox struct {
	e       *Engine
	to      conversation.SessionKey
	self    *actor.PID
	letters []*letter
	sending bool
	pause   time.Duration
}

// letter is one command and what is done when it was taken, or refused for good.
type letter struct {
	late
	id   string // a letter with the same id is not queued twice; "" = always
	cmd  conversation.Command
	done func(err *conversation.Error) // may be nil; runs in the owner
}

type (
	delivered struct {
		late
		l   *letter
		err error
	}
	resend struct{ late }
)

func (o *outbox) put(l *letter) {
	for _, other := range o.letters {
		if l.id != "" && other.id == l.id {
			return
		}
	}
	o.letters = append(o.letters, l)
	o.next()
}

func (o *outbox) next() {
	if o.sending || len(o.letters) == 0 {
		return
	}
	o.sending = true
	l, root, self := o.letters[0], o.e.system.Root, o.self
	o.e.tellInner(o.to, l.cmd, func(_ conversation.Receipt, err error) {
		root.Send(self, &delivered{l: l, err: err})
	})
}

func (o *outbox) delivered(m *delivered) {
	if len(o.letters) == 0 || o.letters[0] != m.l {
		return
	}
	if again(m.err) {
		o.pause = min(max(2*o.pause, o.e.cfg.TellRetry), o.e.cfg.TellEvery)
		root, self := o.e.system.Root, o.self
		time.AfterFunc(o.pause, func() { root.Send(self, &resend{}) })
		return
	}
	o.pause, o.sending = 0, false
	o.letters = o.letters[1:]
	if m.l.done != nil {
		m.l.done(asError(m.err))
	}
	o.next()
}

func (o *outbox) resend() {
	if o.sending {
		o.sending = false
		o.next()
	}
}

// again is true for refusals that may pass.
func again(err error) bool {
	e := asError(err)
	return e != nil && e.Retryable()
}

func asError(err error) *conversation.Error {
	if err == nil {
		return nil
	}
	var e *conversation.Error
	if errors.As(err, &e) {
		return e
	}
	return conversation.AsError(err)
}

// uplink is the child actor by which a sub-session speaks to its parent.
type uplink struct{ out outbox }

// Receive is the actor's.
func (u *uplink) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		u.out.self = ctx.Self()
	case *letter:
		u.out.put(m)
	case *delivered:
		u.out.delivered(m)
	case *resend:
		u.out.resend()
	}
}

// tellUntil hands a command to another session of the tree and repeats it until
// it is taken or refused for good.
func (e *Engine) tellUntil(key conversation.SessionKey, c conversation.Command) {
	e.goWork("telling a session", func() {
		for pause := e.cfg.TellRetry; ; pause = min(2*pause, e.cfg.TellEvery) {
			answer := make(chan error, 1)
			e.tellInner(key, c, func(_ conversation.Receipt, err error) { answer <- err })
			select {
			case err := <-answer:
				if !again(err) {
					return
				}
			case <-e.base.Done():
				return
			}
			select {
			case <-time.After(pause):
			case <-e.base.Done():
				return
			}
			if e.phase.Load() != phaseRunning {
				return // the sub-session will speak again after the restart
			}
		}
	}, nil)
}

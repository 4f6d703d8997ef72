package actors

import (
	"errors"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// outbox delivers commands to one other session of the tree, in order, each one
// until it is acknowledged, which is after the receiver's commit. Only patient
// letters let others pass. Its owner is an actor that passes delivered and resend
// on to it.
type outbox struct {
	e       *Engine
	to      conversation.SessionKey
	self    *actor.PID
	letters []*letter // the patient ones at the end, but for one on its way
	sending bool      // the first letter is on its way
	resting bool      // it was refused, and is sent again after the pause
	pause   time.Duration
}

// letter is one command and what is done when it was taken, or refused for good.
type letter struct {
	late
	id      string // a letter with the same id is not queued twice; "" = always
	cmd     conversation.Command
	patient bool                          // it adds work, so it may be refused for long: what answers or stops does not wait for it
	done    func(err *conversation.Error) // may be nil; runs in the owner
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
	at := len(o.letters)
	if !l.patient {
		at = o.firstPatient()
	}
	o.letters = slices.Insert(o.letters, at, l)
	if at == 0 {
		o.resting = false
	}
	o.next()
}

// firstPatient is the place before the patient letters that are not on their way.
func (o *outbox) firstPatient() int {
	for i, l := range o.letters {
		if l.patient && (i > 0 || !o.sending) {
			return i
		}
	}
	return len(o.letters)
}

func (o *outbox) next() {
	if o.sending || o.resting || len(o.letters) == 0 {
		return
	}
	o.sending = true
	l, root, self := o.letters[0], o.e.system.Root, o.self
	o.e.tellInner(o.to, l.cmd, func(_ conversation.Receipt, err error) {
		root.Send(self, &delivered{l: l, err: err})
	})
}

func (o *outbox) delivered(m *delivered) {
	if !o.sending || o.letters[0] != m.l {
		return
	}
	behind := o.firstPatient()
	o.sending = false
	switch {
	case !again(m.err):
	case m.l.patient && behind > 1:
		o.letters = slices.Insert(slices.Delete(o.letters, 0, 1), behind-1, m.l)
		o.next()
		return
	default:
		o.pause = min(max(2*o.pause, o.e.cfg.TellRetry), o.e.cfg.TellEvery)
		o.resting = true
		root, self := o.e.system.Root, o.self
		time.AfterFunc(o.pause, func() { root.Send(self, &resend{}) })
		return
	}
	o.pause = 0
	o.letters = o.letters[1:]
	if m.l.done != nil {
		m.l.done(asError(m.err))
	}
	o.next()
}

func (o *outbox) resend() {
	o.resting = false
	o.next()
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

// wake brings a session into memory, as soon as the store allows it.
func (e *Engine) wake(key conversation.SessionKey) { e.tellUntil(key, nil) }

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

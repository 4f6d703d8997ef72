package alarm

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/mail"
)

// Alarm is a session's one timer. One that rings too early is harmless, so it is
// not moved to a later time; each setting has a number, so that a late ring of an
// earlier one is recognised. The zero value is not set.
type Alarm struct {
	timer *time.Timer
	at    time.Time // zero: it is not set
	n     uint32
}

// Timeout is the ring of an alarm: a message to its session.
type Timeout struct {
	mail.DeadLetterOK
	n uint32
}

// Set has the alarm ring in a session's mailbox at the latest at a time.
func (a *Alarm) Set(at time.Time, root *actor.RootContext, session *actor.PID) {
	if !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.Stop()
	a.n++
	a.at = at
	n := a.n
	a.timer = time.AfterFunc(time.Until(at), func() { root.Send(session, &Timeout{n: n}) })
}

// Rings is true for the ring of the last setting. The alarm is not set then.
func (a *Alarm) Rings(m *Timeout) bool {
	if m.n != a.n {
		return false
	}
	a.at = time.Time{}
	return true
}

// Stop ends the timer; a ring may be on its way.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// Earlier is the earlier one of two times.
func Earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Later is the later one.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

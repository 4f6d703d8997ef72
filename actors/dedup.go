package actors

import (
	"slices"

	"parley/actors/internal/admission"
	"parley/actors/internal/mail"
	"parley/actors/internal/refusal"
	"parley/conversation"
)

// duplicateResult is the store's answer about the key of a command.
type duplicateResult struct {
	mail.DeadLetterOK
	t   *envelope
	cmd conversation.Command // with what the store knows of it
	err error
}

// needsDuplicateCheck is true when a command cannot be decided before the store was
// asked. Nearly always its filter knows that the key is new, and the command needs no
// way to the disk and back. An event is in a batch until its commit is known to have
// ended, and in the filter from then on: in between, both know of it. No filter can tell
// that the part is there that another one follows.
func (s *session) needsDuplicateCheck(t *envelope) bool {
	return !t.duplicateChecked && (s.machine.PartBefore(t.cmd) != nil || slices.ContainsFunc(s.machine.LookupKeys(t.cmd), func(k conversation.Key) bool {
		return s.pending.owns(k) || s.inFlight.owns(k) || s.e.mayHold(s.key, k)
	}))
}

// mayHold asks the store's filter. A store that panics knows nothing.
func (e *Engine) mayHold(key conversation.SessionKey, k conversation.Key) (perhaps bool) {
	perhaps = true
	e.guarded("asking the store's filter", func() { perhaps = e.deps.Store.MayHold(key, k) })
	return perhaps
}

// owns is true when one of the batch's events owns the key.
func (b *batch) owns(k conversation.Key) bool {
	return b != nil && slices.ContainsFunc(b.commit.Keys, func(at conversation.KeyAt) bool { return at.Key == k })
}

// checkDuplicate asks the store, as soon as everything decided so far is in it.
// Other commands queue behind.
func (s *session) checkDuplicate() {
	if s.checking == nil || s.checkRunning || s.inFlight != nil || s.pending != nil {
		return
	}
	s.checkRunning = true
	t, e, key, self := s.checking, s.e, s.key, s.self
	keys, before := s.machine.LookupKeys(t.cmd), s.machine.PartBefore(t.cmd)
	e.workers.Go("a look-up", func() {
		cmd, err := e.sessions.LookUp(e.workCtx, key, t.cmd, keys, before)
		e.send(self, &duplicateResult{t: t, cmd: cmd, err: err})
	}, func(err error) { e.send(self, &duplicateResult{t: t, err: err}) })
}

// duplicateChecked processes the command that was looked up, then those behind it.
func (s *session) duplicateChecked(m *duplicateResult) {
	if s.phase != phaseReady || s.checking != m.t {
		return
	}
	s.checking, s.checkRunning = nil, false
	t := m.t
	t.duplicateChecked = true
	if m.err != nil {
		t.answer(s.e, refusal.Unread(m.err))
		s.processQueue()
		return
	}
	t.cmd = m.cmd
	s.queue = slices.Insert(s.queue, 0, t)
	s.processQueue()
}

// noRoom is true for a message that is refused for want of a slot. One that is free is kept for it.
func (s *session) noRoom(c conversation.Command) bool {
	say, ok := c.(conversation.Say)
	return ok && s.e.cfg.OnFull.Want(true, s.machine.RefusedWhenFull(c)) == admission.WantPlace && !s.slot.Held() && !stopping(s) && s.machine.WouldStart(say) && !s.reserve(c)
}

package actors

import (
	"slices"
	"strings"

	"parley/actors/internal/mail"
	"parley/conversation"
)

// duplicateResult is the store's answer about the key of a command.
type duplicateResult struct {
	mail.DeadLetterOK
	t   *envelope
	dup *conversation.Duplicate // nil: the key is new
	err error
}

// keysOf are the keys that a command may bring, if only the store can say for
// sure whether one of them was there before.
func (s *session) keysOf(c conversation.Command) (keys []conversation.Key, text string) {
	message := func(author conversation.UserID, id conversation.ClientMsgID) []conversation.Key {
		if id == "" {
			return nil
		}
		return []conversation.Key{{Author: author, Client: id}}
	}
	switch c := c.(type) {
	case conversation.Say:
		return message(c.Author, c.ClientMsgID), c.Text
	case conversation.Answer:
		return message(c.Author, c.ClientMsgID), c.Text
	case conversation.Reply:
		return message(c.Author, c.ClientMsgID), c.Text
	case conversation.AddPart:
		if c.Source == "" {
			return message(c.Author, c.ClientMsgID), c.Said()
		}
		keys = []conversation.Key{{Source: conversation.SourceID("ext:" + c.Source), Part: c.Index}}
		// Where no model of ours answers, a part may belong to a message of the session.
		if s.machine.Summary().Agent == conversation.Outside && strings.HasSuffix(c.Source, "-"+string(s.key.Session)) {
			keys = append(keys, conversation.Key{Source: conversation.SourceID(c.Source), Part: c.Index})
		}
		return keys, c.Text
	case conversation.Cancel:
		return message(c.Author, c.ClientMsgID), c.Said()
	default:
		return nil, ""
	}
}

// needsDuplicateCheck is true when a command cannot be decided before the store was asked.
func (s *session) needsDuplicateCheck(t *envelope) bool {
	if t.duplicateChecked {
		return false
	}
	keys, _ := s.keysOf(t.cmd)
	if len(keys) == 0 {
		return false
	}
	if keys[0].Source != "" {
		return true
	}
	// A message that would be refused may be a repetition of one that was taken.
	return s.machine.NeedsLookup(keys[0].Author, keys[0].Client) || s.noRoom(t.cmd)
}

// checkDuplicate asks the store, as soon as everything decided so far is in it. Other
// commands queue behind.
func (s *session) checkDuplicate() {
	if s.checking == nil || s.checkRunning || s.inFlight != nil || s.pending != nil {
		return
	}
	s.checkRunning = true
	t, e, session, self := s.checking, s.e, s.key, s.self
	keys, text := s.keysOf(t.cmd)
	e.workers.Go("a look-up", func() {
		dup, err := e.find(session, keys, text, t.cmd)
		e.system.Root.Send(self, &duplicateResult{t: t, dup: dup, err: err})
	}, func(err error) { e.system.Root.Send(self, &duplicateResult{t: t, err: err}) })
}

// find makes the hint that the machine needs.
func (e *Engine) find(session conversation.SessionKey, keys []conversation.Key, text string, c conversation.Command) (*conversation.Duplicate, error) {
	seqs, err := e.deps.Store.Find(e.workCtx, session, keys)
	if err != nil {
		return nil, err
	}
	first := slices.Max(seqs) // at most one of them is there
	if first == 0 {
		return nil, nil
	}
	event, err := e.sessions.Event(e.workCtx, session, first)
	if err != nil {
		return nil, err
	}
	dup := &conversation.Duplicate{Seq: event.Seq, Task: event.Task}
	var stored string
	switch b := event.Body.(type) {
	case conversation.MessageAccepted:
		dup.Message, stored = b.Message, b.Text
	case conversation.PartialResponse:
		dup.Message, stored = b.Message, b.Said()
	case conversation.Response:
		dup.Message, stored = b.Message, b.Said()
	case conversation.TaskCancelling:
		stored = b.Said()
	}
	if _, say := c.(conversation.Say); !say { // replies are stored without outer white space
		stored, text = strings.TrimSpace(stored), strings.TrimSpace(text)
	}
	dup.SameText = stored == text
	return dup, nil
}

// duplicateChecked decides the command that was looked up, then goes on with those behind it.
func (s *session) duplicateChecked(m *duplicateResult) {
	if s.phase != phaseReady || s.checking != m.t {
		return
	}
	s.checking, s.checkRunning = nil, false
	t := m.t
	t.duplicateChecked = true
	if m.err != nil {
		err := errUnreachable()
		err.Err = m.err
		t.answer(s.e, err)
		s.processQueue()
		return
	}
	if m.dup != nil {
		switch c := t.cmd.(type) {
		case conversation.Say:
			c.Duplicate = m.dup
			t.cmd = c
		case conversation.Answer:
			c.Duplicate = m.dup
			t.cmd = c
		case conversation.Reply:
			c.Duplicate = m.dup
			t.cmd = c
		case conversation.AddPart:
			c.Duplicate = m.dup
			t.cmd = c
		case conversation.Cancel:
			c.Duplicate = m.dup
			t.cmd = c
		}
	}
	s.queue = slices.Insert(s.queue, 0, t)
	s.processQueue()
}

// noRoom is true for a message that admission.on_full=reject refuses: it would
// need a task of its own to start, and every slot is taken. One that would wait
// in its own session anyway is that session's affair (A-17: busy comes first).
func (s *session) noRoom(c conversation.Command) bool {
	say, ok := c.(conversation.Say)
	if !ok || s.e.cfg.OnFull != OnFullReject || say.Duplicate != nil || !s.root() || s.slot.Held() ||
		s.machine.WouldQueue() || s.e.slots.Free() {
		return false
	}
	v := s.machine.View()
	if v.Agent == conversation.Outside {
		return false
	}
	mode := say.Mode
	if mode == conversation.ModeDefault {
		for _, q := range v.Questions {
			if q.Asked.Blocking {
				return false // it is taken as the answer
			}
		}
		mode = s.machine.Policy().Mode
		if _, own := v.Policy["inbox.mode"]; !own && say.ChannelMode != conversation.ModeDefault {
			mode = say.ChannelMode
		}
	}
	if mode == conversation.ModeSteer {
		for _, task := range v.Tasks {
			if task.Status == conversation.TaskAwaiting || task.Status == conversation.TaskQueued {
				return false // it joins
			}
		}
	}
	return true
}

package machine

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/author"
	"parley/conversation/machine/internal/state"
)

// The inbox: how messages enter, which task they join, and what may still be
// done with one that nothing has read. docs/MACHINE.md, section 9.

// Rules 4.5a, 9.2a.
func (in inbox) decideSay(c conversation.Say) *conversation.Error {
	if strings.TrimSpace(c.Text) == "" && len(c.Files) == 0 {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	if done, err := in.duplicate(c.Author, c.ClientMsgID, attached.Fingerprint(c.Text, c.Files), c.Duplicate); done || err != nil {
		return err
	}
	if in.state.Key.Session.Depth() > 0 {
		return in.calls().acceptAmendment(c)
	}
	if c.Mode != conversation.ModeDefault {
		if err := in.rules.Policy.CheckMode(c.Mode); err != nil {
			return conversation.Errorf(conversation.BadRequest, "mode %v", err)
		}
	}
	if taken, err := in.questions().answerSaid(c); taken || err != nil {
		return err
	}
	if in.state.Closed {
		return errClosed()
	}
	mode := in.mode(c)
	if c.Mode == conversation.ModeDefault && mode != conversation.ModeSteer { // which has an order of its own
		if t := in.state.Asking(); t != nil {
			return in.join(c, t)
		}
	}
	return in.enqueue(c, mode)
}

// duplicate answers a message that was accepted before: from the session's own
// memory, or from the hint that the store gave. Other text under the same id is
// a conflict.
// Rule 9.9.
func (in inbox) duplicate(author conversation.UserID, id conversation.ClientMsgID, text string, hint *conversation.Duplicate) (bool, *conversation.Error) {
	d, n := in.state.Repeated(author, id, text, hint)
	if id == "" || d == nil {
		return false, nil
	}
	if n > 0 {
		d.Message = in.state.MessageID(n)
	}
	if !d.SameText {
		return false, conversation.Errorf(conversation.Conflict, "client_msg_id %q was used for another text", id)
	}
	in.out.Receipt = conversation.Receipt{Message: d.Message, Seq: d.Seq, Task: d.Task, Duplicate: true}
	return true, nil
}

// mode chooses what the message does: its own wish, the session's policy, the
// channel's default, the configuration's.
// Rule 9.2.
func (s *Session) mode(c conversation.Say) conversation.Mode {
	_, overridden := s.state.Policy["inbox.mode"]
	switch {
	case s.state.Agent.Outside():
		return conversation.ModeQueue // each message waits for the parts that carry its id
	case c.Mode != conversation.ModeDefault:
		return c.Mode
	case !overridden && s.policy.Channels[c.Via] != conversation.ModeDefault:
		return s.policy.Channels[c.Via]
	default:
		return s.policy.Mode
	}
}

// enqueue accepts a message into the task that its mode gives it.
// Rules 7.8, 9.4, 9.6.
func (in inbox) enqueue(c conversation.Say, mode conversation.Mode) *conversation.Error {
	switch mode {
	case conversation.ModeReject:
		if in.state.Busy() {
			return conversation.Errorf(conversation.SessionBusy, "%s", in.policy.Texts.Busy)
		}
	case conversation.ModeSteer:
		if t := state.SteerTarget(&in.state); t != nil {
			return in.join(c, t)
		}
	case conversation.ModeCollect:
		if t := in.state.Collecting(); t != nil {
			return in.join(c, t)
		}
	}
	if full := in.inboxFull(); full != nil {
		return full
	}
	if mode == conversation.ModeInterrupt {
		if t := in.state.Running(); t != nil && t.Cancelling == nil {
			in.cancelTask(t, conversation.ByInterrupt, "a newer message interrupts", nil, false)
			if t.Step == nil && len(t.Calls) == 0 {
				in.end(t)
			}
		}
	}
	body := conversation.MessageAccepted{
		Disposition: conversation.Queued, Steer: mode == conversation.ModeSteer, Preempts: mode == conversation.ModeInterrupt,
	}
	if mode == conversation.ModeCollect {
		body.NotBefore = conversation.Stamp(in.now.Add(in.policy.CollectWindow))
	}
	if in.startsAtOnce(body) {
		body.Disposition = conversation.Started
	}
	id := in.state.TaskID(in.state.TaskCount + 1)
	in.accept(c, id, body)
	in.noteRow(in.state.Task(id), nil)
	in.triage()
	return nil
}

// join accepts a message into a task that is there.
func (in inbox) join(c conversation.Say, t *state.Task) *conversation.Error {
	if full := in.inboxFull(); full != nil {
		return full
	}
	in.accept(c, t.ID(), conversation.MessageAccepted{Disposition: conversation.Joined})
	in.triage()
	return nil
}

// Rule 9.10.
func (s *Session) inboxFull() *conversation.Error {
	if s.policy.MaxQueued > 0 && s.state.Waiting() >= s.policy.MaxQueued {
		return conversation.Errorf(conversation.InboxFull, "%d messages are waiting in this session; wait until some are read", s.policy.MaxQueued)
	}
	return nil
}

// accept emits message_accepted; the fields that depend on the mode are in body.
// Rule 9.18.
func (in inbox) accept(c conversation.Say, task conversation.TaskID, body conversation.MessageAccepted) conversation.Event {
	body.Message = in.state.MessageID(in.state.Messages + 1)
	body.ClientMsgID, body.Author, body.Text, body.Via = c.ClientMsgID, c.Author, c.Text, c.Via
	body.AuthorName = author.Name(c.AuthorName)
	body.Mode, body.InReplyTo, body.Files = c.Mode, c.InReplyTo, c.Files
	e := in.emitOf(task, body)
	in.out.Receipt = conversation.Receipt{Message: body.Message, Seq: e.Seq, Disposition: body.Disposition, Task: task}
	return e
}

// startsAtOnce foresees whether settle will make a new task RUNNING in this commit.
// Rule 6.2.
func (in inbox) startsAtOnce(body conversation.MessageAccepted) bool {
	if in.state.Running() != nil || body.NotBefore.After(in.now) || !in.slot && !in.state.Agent.Outside() {
		return false
	}
	if body.Preempts {
		return true
	}
	return in.runnable() == nil
}

// triage asks for the policy's agent when three or more messages wait (D-29).
func (in inbox) triage() {
	if in.policy.TriageAgent != "" && in.state.Waiting() >= triageFrom {
		in.do(conversation.Triage{Agent: in.policy.TriageAgent, Waiting: in.state.View().Inbox})
	}
}

const triageFrom = 3

// triaged keeps what the triage agent says of the waiting messages, for the next step
// to see. It is stored with a move of the first one that changes nothing.
// Rule 9.16.
func (in inbox) triaged(c conversation.Triaged) {
	if waiting := in.state.View().Inbox; len(waiting) > 0 && !conversation.IsBlank(c.Report) {
		t, m := in.state.Message(waiting[0].Message)
		in.emit(t, conversation.MessageMoved{Message: m.ID, Report: conversation.Excerpt(c.Report, state.RememberedText)})
	}
}

func (in inbox) decideEdit(c conversation.Edit) *conversation.Error {
	if strings.TrimSpace(c.Text) == "" {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	t, m, err := state.Editable(&in.state, c.Message)
	if err == nil {
		err = state.Mine(&in.state, m, c.By)
	}
	if err != nil {
		return err
	}
	in.out.Receipt.Message = m.ID
	if m.Text == c.Text && (m.Deferred || utf8.RuneCountInString(c.Text) <= state.RememberedText) {
		return nil // it says that already; of a longer text only the beginning is known
	}
	in.emit(t, conversation.MessageEdited{Message: m.ID, Text: c.Text})
	return nil
}

// Rule 7.9.
func (in inbox) decideWithdraw(c conversation.Withdraw) *conversation.Error {
	in.out.Receipt.Message = c.Message
	if n := conversation.Ordinal(string(c.Message), 'm'); in.state.MessageID(n) == c.Message && slices.Contains(in.state.Withdrawn, n) {
		return nil
	}
	t, m, err := state.Editable(&in.state, c.Message)
	if err == nil {
		err = state.Mine(&in.state, m, c.By)
	}
	if err != nil {
		return err
	}
	var heir conversation.MessageID
	if t.Trigger == m.ID && !t.Ran() {
		for _, other := range t.Messages {
			if other != m && !other.Deferred {
				heir = other.ID
				break
			}
		}
	}
	last := t.Trigger == m.ID && !t.Ran() && heir == ""
	in.emit(t, conversation.MessageWithdrawn{Message: m.ID, NewTrigger: heir})
	in.resolve(t, m.ID, conversation.ResolvedWithdrawn, "")
	if heir != "" {
		in.noteRow(t, nil)
	}
	if last {
		in.cancelTask(t, conversation.ByUser, "its only message was withdrawn", nil, false)
	}
	return nil
}

// decideMove orders what waits: messages within their task, QUEUED tasks among
// each other. Everyone who may see the session may.
// Rule 9.8.
func (in inbox) decideMove(c conversation.Move) *conversation.Error {
	t, m, err := state.Editable(&in.state, c.Message)
	if err != nil {
		return err
	}
	if c.Before != "" {
		bt, b, err := state.Editable(&in.state, c.Before)
		if err != nil {
			return err
		}
		if b == m {
			return conversation.Errorf(conversation.BadRequest, "a message cannot be moved before itself")
		}
		if bt != t && (t.Status != conversation.TaskQueued || bt.Status != conversation.TaskQueued) {
			return conversation.Errorf(conversation.Conflict, "the two messages wait for different tasks, and one of them runs already")
		}
	}
	in.out.Receipt.Message = m.ID
	if !state.Moves(&in.state, t, m, c.Before) {
		return nil
	}
	in.emit(t, conversation.MessageMoved{Message: m.ID, Before: c.Before})
	return nil
}

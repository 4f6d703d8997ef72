package machine

import (
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation"
)

// The inbox: how messages enter, which task they join, and what may still be
// done with one that nothing has read. machine.md, section 9.

// rememberedText is how much of an unresolved message's text the state keeps, in
// code points: enough for a question that it turns out to answer.
const rememberedText = 1000

// excerptLength is how much of a text lists and titles show, in code points.
const excerptLength = 60

func (s *Session) decideSay(c conversation.Say) *conversation.Error {
	if strings.TrimSpace(c.Text) == "" {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	if done, err := s.duplicate(c.Author, c.ClientMsgID, c.Text, c.Duplicate); done || err != nil {
		return err
	}
	if s.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed and takes no more messages")
	}
	if s.key.Session.Depth() > 0 {
		return s.acceptAmendment(c)
	}
	if c.Mode == conversation.ModeDefault {
		if taken, err := s.answerPlain(c); taken || err != nil {
			return err
		}
	}
	return s.enqueue(c, s.mode(c))
}

// duplicate answers a message that was accepted before: from the session's own
// memory, or from the hint that the store gave. Other text under the same id is
// a conflict.
func (s *Session) duplicate(author conversation.UserID, id conversation.ClientMsgID, text string, hint *conversation.Duplicate) (bool, *conversation.Error) {
	if id == "" {
		return false, nil
	}
	d := hint
	if d == nil {
		r, ok := s.state.recall(author, id)
		if !ok {
			return false, nil
		}
		d = &conversation.Duplicate{Message: s.messageID(r.Message), Seq: conversation.Seq(r.Seq), SameText: r.Text == textKey(text)}
	}
	if !d.SameText {
		return false, conversation.Errorf(conversation.Conflict, "client_msg_id %q was used for another text", id)
	}
	s.out.Receipt = conversation.Receipt{Message: d.Message, Seq: d.Seq, Task: d.Task, Duplicate: true}
	return true, nil
}

// mode is what the message does: its own wish, the session's policy, the
// channel's default, the configuration's.
func (s *Session) mode(c conversation.Say) conversation.Mode {
	_, overridden := s.state.Policy["inbox.mode"]
	switch {
	case s.state.Agent == conversation.Outside:
		return conversation.ModeQueue // each message waits for the parts that carry its id
	case c.Mode != conversation.ModeDefault:
		return c.Mode
	case !overridden && c.ChannelMode != conversation.ModeDefault:
		return c.ChannelMode
	default:
		return s.policy.Mode
	}
}

// enqueue accepts a message into the task that its mode gives it.
func (s *Session) enqueue(c conversation.Say, mode conversation.Mode) *conversation.Error {
	switch mode {
	case conversation.ModeReject:
		if s.busy() {
			return conversation.Errorf(conversation.SessionBusy, "%s", s.policy.Texts.Busy)
		}
	case conversation.ModeSteer:
		if t := s.steerTarget(); t != nil {
			return s.join(c, t)
		}
	case conversation.ModeCollect:
		if t := s.collecting(); t != nil {
			return s.join(c, t)
		}
	}
	if full := s.inboxFull(); full != nil {
		return full
	}
	if mode == conversation.ModeInterrupt {
		if t := s.running(); t != nil && t.Cancelling == nil {
			s.cancelTask(t, conversation.ByInterrupt, "a newer message interrupts", nil, false)
			if t.Step == nil && len(t.Calls) == 0 {
				s.end(t)
			}
		}
	}
	body := conversation.MessageAccepted{
		Disposition: conversation.Queued, Steer: mode == conversation.ModeSteer, First: mode == conversation.ModeInterrupt,
	}
	if mode == conversation.ModeCollect {
		body.NotBefore = conversation.Stamp(s.now.Add(s.policy.CollectWindow))
	}
	if s.startsAtOnce(body) {
		body.Disposition = conversation.Started
	}
	id := s.taskID(s.state.TaskCount + 1)
	s.accept(c, id, body)
	s.noteRow(s.task(id), nil)
	s.triage()
	return nil
}

// join accepts a message into a task that is there.
func (s *Session) join(c conversation.Say, t *task) *conversation.Error {
	if full := s.inboxFull(); full != nil {
		return full
	}
	s.accept(c, s.taskID(t.N), conversation.MessageAccepted{Disposition: conversation.Joined})
	s.triage()
	return nil
}

func (s *Session) inboxFull() *conversation.Error {
	if s.policy.MaxQueued > 0 && s.waiting() >= s.policy.MaxQueued {
		return conversation.Errorf(conversation.InboxFull, "%d messages are waiting in this session; wait until some are read", s.policy.MaxQueued)
	}
	return nil
}

// accept emits message_accepted; the fields that depend on the mode are in body.
func (s *Session) accept(c conversation.Say, task conversation.TaskID, body conversation.MessageAccepted) conversation.Event {
	body.Message = s.messageID(s.state.Messages + 1)
	body.ClientMsgID, body.Author, body.Text, body.Via = c.ClientMsgID, c.Author, c.Text, c.Via
	body.Mode, body.InReplyTo = c.Mode, c.InReplyTo
	e := s.emitOf(task, body)
	s.out.Receipt = conversation.Receipt{Message: body.Message, Seq: e.Seq, Disposition: body.Disposition, Task: task}
	return e
}

// startsAtOnce foresees whether settle will make a new task RUNNING in this commit.
func (s *Session) startsAtOnce(body conversation.MessageAccepted) bool {
	if s.running() != nil || body.NotBefore.After(s.now) || !s.slot && s.state.Agent != conversation.Outside {
		return false
	}
	if body.First {
		return true
	}
	next := s.runnable()
	for _, t := range s.state.Tasks {
		if t.Status == conversation.TaskAwaiting && !s.awaits(t) {
			return false // it goes back into the queue, before us
		}
	}
	return next == nil
}

// steerTarget is the task that a steer message joins: the RUNNING one, else the
// next QUEUED one that a steer message or a reply put there, else the newest
// AWAITING one without a blocking question of its own. One that waits at its
// step limit is joined by nothing: it reads no message any more.
func (s *Session) steerTarget() *task {
	if t := s.running(); t != nil && t.Cancelling == nil {
		return t
	}
	var queued, awaiting *task
	for _, t := range s.state.Tasks {
		if t.Cancelling != nil {
			continue
		}
		switch {
		case t.Status == conversation.TaskQueued && (t.Steer || t.Order == orderReplied):
			if queued == nil || t.Order > queued.Order {
				queued = t
			}
		case t.Status == conversation.TaskAwaiting && !t.blocked() && t.Steps < s.maxSteps():
			if awaiting == nil || t.N > awaiting.N {
				awaiting = t
			}
		}
	}
	if queued != nil {
		return queued
	}
	return awaiting
}

func (s *Session) collecting() *task {
	for _, t := range s.state.Tasks {
		if t.Status == conversation.TaskQueued && t.Collect && !t.ran() && t.Cancelling == nil {
			return t
		}
	}
	return nil
}

// busy is what inbox.mode=reject refuses: something runs or is about to.
func (s *Session) busy() bool {
	for _, t := range s.state.Tasks {
		if t.Status == conversation.TaskRunning || t.Status == conversation.TaskQueued {
			return true
		}
	}
	return false
}

// triage asks for the policy's agent when three or more messages wait (D-29).
func (s *Session) triage() {
	if s.policy.TriageAgent != "" && s.waiting() >= triageFrom {
		s.do(conversation.Triage{Agent: s.policy.TriageAgent, Waiting: s.View().Inbox})
	}
}

const triageFrom = 3

func (s *Session) applyAccepted(e conversation.Event, t *task, b conversation.MessageAccepted) {
	st := &s.state
	n := conversation.Ordinal(string(b.Message), 'm')
	st.Messages, st.Activity = max(st.Messages, n), e.At
	if b.ClientMsgID != "" {
		st.remember(recent{Key: clientKey(b.Author, b.ClientMsgID), Text: textKey(b.Text), Message: n, Seq: uint32(e.Seq)})
	}
	switch b.Disposition {
	case conversation.Answered:
		return // resolved in the same commit
	case conversation.Started, conversation.Queued:
		if t == nil {
			t = s.newTask(e, b.Message)
			t.Steer, t.Collect, t.NotBefore = b.Steer, !b.NotBefore.IsZero(), b.NotBefore
			if b.First { // also before an earlier interrupt that still waits
				t.Order = orderFirst
				st.Tasks = slices.Insert(st.Tasks[:len(st.Tasks)-1:len(st.Tasks)-1], 0, t)
			}
		}
	}
	if t != nil {
		m := &message{
			ID: b.Message, Author: b.Author, Via: b.Via, Seq: e.Seq, At: e.At, Kept: b.Kept,
			Text: conversation.Excerpt(b.Text, rememberedText), Words: significantWords(b.Text),
		}
		if b.Kept {
			m.Text = b.Text
		}
		t.Messages = append(t.Messages, m)
	}
}

// editable finds a message that nothing has read. One that was read or resolved
// is a conflict, one that never was is not found.
func (s *Session) editable(id conversation.MessageID) (*task, *message, *conversation.Error) {
	t, m := s.message(id)
	if m == nil {
		if n := conversation.Ordinal(string(id), 'm'); n > 0 && n <= s.state.Messages && s.messageID(n) == id {
			return nil, nil, conversation.Errorf(conversation.Conflict, "the message does not wait any more")
		}
		return nil, nil, conversation.Errorf(conversation.NotFound, "there is no such message in this session")
	}
	if m.Read != 0 {
		return nil, nil, conversation.Errorf(conversation.Conflict, "the message was read already")
	}
	return t, m, nil
}

// mine lets only its author, or the session's owner, change a message.
func (s *Session) mine(m *message, by conversation.UserID) *conversation.Error {
	if m.Author != by && s.state.Owner != by {
		return conversation.Errorf(conversation.Forbidden, "only its author may change a message")
	}
	return nil
}

func (s *Session) decideEdit(c conversation.Edit) *conversation.Error {
	if strings.TrimSpace(c.Text) == "" {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	t, m, err := s.editable(c.Message)
	if err == nil {
		err = s.mine(m, c.By)
	}
	if err != nil {
		return err
	}
	s.out.Receipt.Message = m.ID
	if m.Text == c.Text && (m.Kept || utf8.RuneCountInString(c.Text) <= rememberedText) {
		return nil // it says that already; of a longer text only the beginning is known
	}
	s.emit(t, conversation.MessageEdited{Message: m.ID, Text: c.Text})
	return nil
}

func (s *Session) decideWithdraw(c conversation.Withdraw) *conversation.Error {
	s.out.Receipt.Message = c.Message
	if n := conversation.Ordinal(string(c.Message), 'm'); s.messageID(n) == c.Message && slices.Contains(s.state.Withdrawn, n) {
		return nil
	}
	t, m, err := s.editable(c.Message)
	if err == nil {
		err = s.mine(m, c.By)
	}
	if err != nil {
		return err
	}
	var heir conversation.MessageID
	if t.Trigger == m.ID && !t.ran() {
		for _, other := range t.Messages {
			if other != m && !other.Kept {
				heir = other.ID
				break
			}
		}
	}
	last := t.Trigger == m.ID && !t.ran() && heir == ""
	s.emit(t, conversation.MessageWithdrawn{Message: m.ID, Heir: heir})
	s.resolve(t, m.ID, conversation.ResolvedWithdrawn, nil, "")
	if heir != "" {
		s.noteRow(t, nil)
	}
	if last {
		s.cancelTask(t, conversation.ByUser, "its only message was withdrawn", nil, false)
	}
	return nil
}

// maxWithdrawn bounds how many withdrawn messages are remembered: as many as
// client ids are.
const maxWithdrawn = 256

func (s *Session) applyWithdrawn(t *task, b conversation.MessageWithdrawn) {
	st := &s.state
	st.Withdrawn = append(st.Withdrawn, conversation.Ordinal(string(b.Message), 'm'))
	if extra := len(st.Withdrawn) - maxWithdrawn; extra > 0 {
		st.Withdrawn = append([]uint32(nil), st.Withdrawn[extra:]...)
	}
	if t != nil && b.Heir != "" {
		t.Trigger = b.Heir
	}
}

// decideMove orders what waits: messages within their task, QUEUED tasks among
// each other. Everyone who may see the session may.
func (s *Session) decideMove(c conversation.Move) *conversation.Error {
	t, m, err := s.editable(c.Message)
	if err != nil {
		return err
	}
	if c.Before != "" {
		bt, b, err := s.editable(c.Before)
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
	s.out.Receipt.Message = m.ID
	if !s.moves(t, m, c.Before) {
		return nil
	}
	s.emit(t, conversation.MessageMoved{Message: m.ID, Before: c.Before})
	return nil
}

// moves is false when everything stands as wished already.
func (s *Session) moves(t *task, m *message, before conversation.MessageID) bool {
	if before == "" {
		first := t.firstUnread()
		return t.Messages[first] != m || t.Status == conversation.TaskQueued && s.runnableFirst() != t
	}
	bt, b := s.message(before)
	if bt == t {
		i := slices.Index(t.Messages, m)
		return i+1 >= len(t.Messages) || t.Messages[i+1] != b
	}
	i := slices.Index(s.state.Tasks, t)
	return t.Order != bt.Order || i+1 >= len(s.state.Tasks) || s.state.Tasks[i+1] != bt
}

func (s *Session) runnableFirst() *task {
	var first *task
	for _, t := range s.state.Tasks {
		if t.Status == conversation.TaskQueued && (first == nil || t.Order > first.Order) {
			first = t
		}
	}
	return first
}

func (t *task) firstUnread() int {
	for i, m := range t.Messages {
		if m.Read == 0 {
			return i
		}
	}
	return len(t.Messages)
}

func (s *Session) applyMoved(b conversation.MessageMoved) {
	t, m := s.message(b.Message)
	if m == nil {
		return
	}
	bt, before := s.message(b.Before)
	if b.Before == "" || bt == t {
		i := slices.Index(t.Messages, m)
		t.Messages = slices.Delete(slices.Clone(t.Messages), i, i+1)
		at := t.firstUnread()
		if before != nil {
			at = slices.Index(t.Messages, before)
		}
		t.Messages = slices.Insert(t.Messages, at, m)
	}
	if t.Status != conversation.TaskQueued || bt == t {
		return
	}
	i := slices.Index(s.state.Tasks, t)
	s.state.Tasks = slices.Delete(slices.Clone(s.state.Tasks), i, i+1)
	at := 0
	if bt != nil {
		at, t.Order = slices.Index(s.state.Tasks, bt), bt.Order
	} else {
		for _, other := range s.state.Tasks {
			if other.Status == conversation.TaskQueued {
				t.Order = max(t.Order, other.Order)
			}
		}
	}
	s.state.Tasks = slices.Insert(s.state.Tasks, at, t)
}

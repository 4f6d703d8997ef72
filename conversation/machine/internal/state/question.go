package state

import (
	"slices"
	"strings"

	"parley/conversation"
)

func (st *State) applyAsked(e conversation.Event, t *Task, b conversation.Asked) {
	if n := conversation.Ordinal(string(b.Question), 'q'); b.Delegation == "" && n > 0 {
		st.Questions = max(st.Questions, n)
	}
	if t == nil {
		return
	}
	t.Questions = append(t.Questions, &Question{Asked: b, Seq: e.Seq, At: e.At, Step: t.LastStep})
	if b.Approval != nil && b.Delegation == "" {
		st.Calls = max(st.Calls, conversation.Ordinal(string(b.Approval.Call), 'c'))
		t.Calls = append(t.Calls, &Call{ID: b.Approval.Call, Step: t.LastStep, Tool: b.Approval.Tool, Held: true, Seq: e.Seq, At: e.At})
	}
	if c := t.Call(b.Call); c != nil {
		c.Asked++
	}
	t.standStill(b, e.At)
}

// applyQuestionAnswered closes a question. The answer is unseen, unless the
// model itself gave it by covering a message that it had read.
func (st *State) applyQuestionAnswered(e conversation.Event, b conversation.QuestionAnswered) {
	t, q := st.Question(b.Question)
	if q == nil {
		return
	}
	t.closeQuestion(b.Question)
	t.standStill(q.Asked, e.At)
	if !q.Own() {
		if c := t.Call(q.Asked.Delegation); c != nil {
			if c.Answers == nil {
				c.Answers = map[conversation.QuestionID]reply{}
			}
			c.Answers[Inner(b.Question)] = reply{Text: b.Text, By: conversation.UserID(b.By)}
		}
		return
	}
	if m := t.Message(b.Message); m != nil && m.Read != 0 {
		return
	}
	switch {
	case q.Asked.Approval != nil, q.Asked.Call != "": // the call's result tells the model
		t.Allowed = true
		return
	case b.Message != "":
		t.UnseenAnswer = true
	default: // a default is nobody's answer
		t.UnseenInput = true
	}
	t.NextOf = q.Asked.About
}

func (st *State) applyQuestionClosed(e conversation.Event, b conversation.QuestionClosed) {
	t, q := st.Question(b.Question)
	if q == nil {
		return
	}
	t.closeQuestion(b.Question)
	t.standStill(q.Asked, e.At)
	if q.Own() && b.Reason == conversation.QuestionExpired && q.Asked.Approval == nil {
		t.UnseenInput = true
	}
}

func (t *Task) closeQuestion(id conversation.QuestionID) {
	for i, q := range t.Questions {
		if q.Asked.Question == id {
			t.Questions = append(t.Questions[:i:i], t.Questions[i+1:]...)
			return
		}
	}
}

// Inner is a delegation's question as its own session calls it: "d1.q2" → "q2".
func Inner(id conversation.QuestionID) conversation.QuestionID {
	if i := strings.IndexByte(string(id), '.'); i >= 0 {
		return id[i+1:]
	}
	return id
}

// Outer is the name of a delegation's question in the log of its parent: "q2" of d1 is "d1.q2".
func Outer(d conversation.CallID, id conversation.QuestionID) conversation.QuestionID {
	return conversation.QuestionID(d) + "." + id
}

// NewestQuestion is the newest eligible blocking question, else the newest
// eligible one. Tasks that are being cancelled have none.
func (st *State) NewestQuestion(eligible func(*Task, *Question) bool) (*Task, *Question) {
	var bt *Task
	var best *Question
	for _, t := range Active(st) {
		for _, q := range t.Questions {
			if !eligible(t, q) {
				continue
			}
			if best == nil || q.Asked.Blocking && !best.Asked.Blocking ||
				q.Asked.Blocking == best.Asked.Blocking && q.Seq > best.Seq {
				bt, best = t, q
			}
		}
	}
	return bt, best
}

// MayAnswer is true for a message that may be meant as the answer to an open question
// of the task: it was read after a non-blocking one was asked. What made the task
// begin, or ask, is none.
// Rule 4.5.
func (t *Task) MayAnswer(m *Message) bool {
	later := false
	for _, q := range t.Questions {
		if q.Asked.About == m.ID {
			return false
		}
		later = later || q.Own() && !q.Asked.Blocking && q.Seq < m.Read
	}
	return later && m.ID != t.Trigger
}

// Asking is the newest task that waits for nothing but answers to non-blocking
// questions, while no task is RUNNING; nil if there is none.
// Rule 4.5a.
func (st *State) Asking() *Task {
	var newest *Task
	for _, t := range Active(st) {
		if t.Status == conversation.TaskRunning {
			return nil
		}
		blocking := slices.ContainsFunc(t.Questions, func(q *Question) bool { return q.Asked.Blocking })
		if t.Status == conversation.TaskAwaiting && t.Cancelling == nil && t.Asking() && !blocking && (newest == nil || t.N > newest.N) {
			newest = t
		}
	}
	return newest
}

// OfCaller is true for a question of the task by which the session's caller is asked for the
// result of a tool that it runs.
// Rule 4.16.
func (t *Task) OfCaller(q *Question) bool {
	c := t.Call(q.Asked.Call)
	return c != nil && c.Caller
}

// AskedBy is the open question of a tool call; nil if there is none.
func (t *Task) AskedBy(call conversation.CallID) *Question {
	for _, q := range t.Questions {
		if q.Asked.Call == call {
			return q
		}
	}
	return nil
}

// NewestQuestion is the newest open question of the task that its users are asked, approvals
// aside; nil if there is none.
func (t *Task) NewestQuestion() *Question {
	for i := len(t.Questions) - 1; i >= 0; i-- {
		if q := t.Questions[i]; q.Asked.Approval == nil && !t.OfCaller(q) {
			return q
		}
	}
	return nil
}

// Kept is the oldest reply that was kept for a question of the task; nil if there is none.
func (t *Task) Kept() *Message {
	for _, m := range t.Messages {
		if m.Deferred {
			return m
		}
	}
	return nil
}

// OpenQuestions are all that are open in the session, those of the first task first.
func (st *State) OpenQuestions() []*Question {
	var open []*Question
	for _, t := range Active(st) {
		open = append(open, t.Questions...)
	}
	return open
}

// Existed is true for the id of a question that was asked at some time.
func (st *State) Existed(id conversation.QuestionID) bool {
	if d, _, sub := strings.Cut(string(id), "."); sub {
		n := conversation.Ordinal(d, 'd')
		return n > 0 && n <= st.Delegations
	}
	n := conversation.Ordinal(string(id), 'q')
	return n > 0 && n <= st.Questions
}

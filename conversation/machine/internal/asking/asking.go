package asking

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/intake"
	"parley/conversation/machine/internal/state"
)

// Match is an open question, and what a message says to it.
type Match struct {
	Task     *state.Task
	Question *state.Question // nil: the message answers none
	Text     string
}

// By is the question that a message which is sent answers: the one that it names in its
// in_reply_to; with "/answer" the newest of any kind; else the newest that takes a plain
// message. The question for the result of a caller's tool takes no plain message, and
// "/answer" gives it one only where nothing else is asked. An error refuses the message.
// Rules 4.1, 4.16.
func By(st *state.State, c conversation.Say) (Match, *conversation.Error) {
	kind, text := intake.Classify(c.Text, true)
	if kind != intake.Answer {
		text = c.Text
	}
	if t, q := st.Question(conversation.QuestionID(c.InReplyTo)); q != nil && intake.MayAnswer(q.Asked, text) {
		if choice, is := intake.NumberedChoice(q.Asked.Choices, text); is && q.Asked.Approval == nil {
			text = choice
		}
		return Match{t, q, text}, nil
	}
	if c.Mode != conversation.ModeDefault {
		return Match{}, nil
	}
	if kind == intake.Answer {
		t, q := st.NewestQuestion(func(t *state.Task, q *state.Question) bool { return intake.MayAnswer(q.Asked, text) && !t.OfCaller(q) })
		if q == nil { // an approval says what it takes
			t, q = st.NewestQuestion(func(*state.Task, *state.Question) bool { return true })
		}
		if q == nil {
			return Match{}, conversation.Errorf(conversation.QuestionNotOpen, "no question is open in this session")
		}
		return Match{t, q, text}, nil
	}
	t, q := st.NewestQuestion(func(t *state.Task, q *state.Question) bool {
		_, taken := intake.Takes(q.Asked, t.Status == conversation.TaskAwaiting, text)
		return taken && !t.OfCaller(q)
	})
	if q == nil {
		return Match{}, nil
	}
	text, _ = intake.Takes(q.Asked, t.Status == conversation.TaskAwaiting, text)
	return Match{t, q, text}, nil
}

// Of is the question that a reply to a task answers: the newest, and that for the result of
// a caller's tool only where nothing else is asked; nil = none is open.
// Rules 8.5, 4.16.
func Of(st *state.State, t *state.Task) *state.Question {
	_, q := st.NewestQuestion(func(of *state.Task, q *state.Question) bool { return of == t && !t.OfCaller(q) })
	if q == nil {
		_, q = st.NewestQuestion(func(of *state.Task, _ *state.Question) bool { return of == t })
	}
	return q
}

// People are the open questions without those for the results of callers' tools.
func People(st *state.State) []*state.Question {
	var open []*state.Question
	for _, t := range state.Active(st) {
		for _, q := range t.Questions {
			if !t.OfCaller(q) {
				open = append(open, q)
			}
		}
	}
	return open
}

// Blocks is true while people are asked a blocking question.
func Blocks(st *state.State) bool {
	return slices.ContainsFunc(People(st), func(q *state.Question) bool { return q.Asked.Blocking })
}

// Unclear is the reminder of the messages of which nothing says whether they answer a
// question of the task; it has no messages where each is clear.
// Rule 4.5.
func Unclear(t *state.Task, open []*state.Message) conversation.CoverageNudge {
	nudge := conversation.CoverageNudge{Nudge: t.Nudges + 1, Form: conversation.NudgeQuestion}
	var newest conversation.Seq
	for _, m := range open {
		if t.MayAnswer(m) && !m.Clarified {
			nudge.Messages, newest = append(nudge.Messages, m.ID), max(newest, m.Read)
		}
	}
	for _, q := range t.Questions {
		if q.Own() && !q.Asked.Blocking && q.Seq < newest {
			nudge.Questions = append(nudge.Questions, q.Asked.Question)
		}
	}
	return nudge
}

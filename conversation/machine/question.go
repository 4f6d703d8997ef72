package machine

import (
	"cmp"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/machine/internal/asking"
	"parley/conversation/machine/internal/intake"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Questions: blocking and not, the task's own and its delegations', and
// approvals. docs/MACHINE.md, section 4.

// ask opens a question of the task's own. A kept reply answers it at once.
// Rule 4.9.
func (qs questions) ask(t *state.Task, b conversation.Asked) {
	b.Question = qs.state.QuestionID(qs.state.Questions + 1)
	b.About = cmp.Or(b.About, qs.addressee)
	qs.emit(t, b)
	if qs.state.Key.Session.Depth() > 0 {
		qs.do(conversation.ReportQuestion{Asked: b})
	}
	if b.Approval == nil {
		qs.meetKept(t)
	}
}

// askedInText makes a question of the last paragraph of a text that would end the task,
// with ask.detect=question. It has no call: its answer is read as what the user said.
// Rule 4.12.
func (qs questions) askedInText(t *state.Task) progress {
	p := qs.pending
	if qs.policy.AskDetect != policy.AskDetectQuestion || qs.state.Key.Session.Depth() > 0 || p.task != t || len(p.texts) == 0 {
		return settled
	}
	text, asks := intake.LastQuestion(p.texts[len(p.texts)-1].text)
	if !asks {
		return settled
	}
	qs.showPending(t)
	qs.ask(t, conversation.Asked{Text: text, Blocking: true})
	return again
}

// meetKept lets a reply that was kept answer the newest question of its task: when one
// is asked, also by a delegation, and when the task parks. An approval takes none.
// Rule 8.5.
func (qs questions) meetKept(t *state.Task) progress {
	m, q := t.Kept(), t.NewestQuestion()
	if m == nil || q == nil {
		return settled
	}
	qs.answerBy(t, m, q.Asked.Question, m.Text)
	return again
}

// answerBy makes a message that a task has, be it read or kept, the answer to an open
// question of any task.
// Rules 4.4, 8.5.
func (qs questions) answerBy(t *state.Task, m *state.Message, id conversation.QuestionID, text string) {
	asker, q := qs.state.Question(id)
	if choice, is := intake.Choice(q.Asked.Choices, text); is {
		text = choice
	}
	qs.emit(asker, conversation.QuestionAnswered{Question: id, Message: m.ID, Text: text, By: string(m.Author)})
	qs.resolve(t, m.ID, conversation.ResolvedMerged, id)
	qs.handOver(q.Asked, text, m.Author)
}

// closeQuestions closes all questions of a task without an answer.
// Rule 4.7.
func (qs questions) closeQuestions(t *state.Task, why conversation.ClosedReason) {
	for _, q := range slices.Clone(t.Questions) {
		qs.close(t, q, why)
	}
}

// close closes one question without an answer. A sub-session's question is open
// with its parent too, also one that came from further down.
func (qs questions) close(t *state.Task, q *state.Question, why conversation.ClosedReason) {
	qs.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: why})
	if qs.state.Key.Session.Depth() > 0 {
		qs.do(conversation.ReportQuestionClosed{Question: q.Asked.Question, Reason: why})
	}
	if q.Asked.Call != "" {
		qs.answerTool(q.Asked.Call, "", false)
	}
}

// expire closes a question whose time is over: by its default, or as expired.
// Rules 2.13, 4.6.
func (qs questions) expire(t *state.Task, q *state.Question) {
	if qs.state.Key.Session.Depth() > 0 {
		qs.do(conversation.ReportQuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionExpired, Default: q.Asked.Default})
	}
	if q.Asked.Default != nil {
		qs.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Text: *q.Asked.Default, By: byDefault})
		return
	}
	qs.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionExpired})
}

const byDefault = "default"

// clarify asks the model, once for each message, whether it answers an open question:
// one that was read after a non-blocking question was asked, and of which nothing
// says yet what it is. A question is never closed by such a message alone.
// Rule 4.5.
func (qs questions) clarify(t *state.Task) nudging {
	if qs.coverage() != policy.CoverageStrict || qs.policy.MaxNudges == 0 {
		return notNudged
	}
	nudge := asking.Unclear(t, qs.obligations().openMessages(t))
	if len(nudge.Messages) == 0 {
		return notNudged
	}
	qs.showPending(t)
	qs.emit(t, nudge)
	return nudged
}

// answerSaid gives a message that is sent to the open question that it answers, if it
// answers one. The result of a caller's tool is a text: no model would be shown a file of it.
// Rules 4.1, 4.16.
func (qs questions) answerSaid(c conversation.Say) (bool, *conversation.Error) {
	a, err := asking.By(&qs.state, c)
	if err == nil && a.Question != nil && a.Task.OfCaller(a.Question) && (strings.TrimSpace(a.Text) == "" || len(c.Files) > 0) {
		err = conversation.Errorf(conversation.BadRequest, "the result of a call is a text that is not blank, without attachments")
	}
	if err == nil && a.Question != nil {
		err = qs.answerQuestion(a.Task, a.Question, c, a.Text)
	}
	return err != nil || a.Question != nil, err
}

// Rules 4.1, 4.4.
func (qs questions) decideAnswer(c conversation.Answer) *conversation.Error {
	say := conversation.Say{Author: c.Author, AuthorName: c.AuthorName, Via: c.Via, ClientMsgID: c.ClientMsgID, Text: c.Text}
	if strings.TrimSpace(c.Text) == "" {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	if done, err := qs.inbox().duplicate(c.Author, c.ClientMsgID, c.Text, c.Duplicate); done || err != nil {
		return err
	}
	t, q := qs.state.Question(c.Question)
	if q == nil {
		if qs.state.Existed(c.Question) {
			return conversation.Errorf(conversation.QuestionNotOpen, "the question is not open any more")
		}
		return conversation.Errorf(conversation.NotFound, "there is no such question in this session")
	}
	return qs.answerQuestion(t, q, say, c.Text)
}

// decideReply is the reply route of the tasks API.
// Rule 8.5.
func (qs questions) decideReply(c conversation.Reply) *conversation.Error {
	text := strings.TrimSpace(c.Text)
	if text == "" {
		return conversation.Errorf(conversation.BadRequest, "reply must not be blank")
	}
	if done, err := qs.inbox().duplicate(c.Author, c.ClientMsgID, text, c.Duplicate); done || err != nil {
		return err
	}
	say := conversation.Say{Author: c.Author, AuthorName: c.AuthorName, Via: c.Via, ClientMsgID: c.ClientMsgID, Text: text}
	t := qs.state.Task(c.Task)
	if t == nil {
		if n := conversation.Ordinal(string(c.Task), 't'); n > 0 && n <= qs.state.TaskCount && qs.state.TaskID(n) == c.Task {
			return conversation.Errorf(conversation.TaskNotAwaiting, "the task has ended")
		}
		return conversation.Errorf(conversation.NotFound, "there is no such task")
	}
	if t.Status == conversation.TaskAwaiting && t.Cancelling == nil {
		if q := asking.Of(&qs.state, t); q != nil {
			if !intake.MayAnswer(q.Asked, text) {
				return conversation.Errorf(conversation.BadRequest, "the task waits for an approval: reply yes or no")
			}
			return qs.answerQuestion(t, q, say, text)
		}
	}
	if qs.policy.ReplyOnBusy == policy.ReplyQueue && t.Cancelling == nil {
		if qs.state.Closed {
			return errClosed()
		}
		if full := qs.inboxFull(); full != nil {
			return full
		}
		qs.inbox().accept(say, t.ID(), conversation.MessageAccepted{Disposition: conversation.Joined, Deferred: true})
		qs.out.Receipt.Deferred, qs.out.Receipt.OldStatus, qs.out.Receipt.NewStatus = true, t.Status, t.Status
		return nil
	}
	e := conversation.Errorf(conversation.TaskNotAwaiting, "the task is %s and does not wait for a reply", t.Status)
	if t.Cancelling != nil {
		e.Message = "the task is being cancelled"
	}
	e.TaskStatus = t.Status
	return e
}

// answerQuestion accepts the message as the answer and merges it into the question.
// Rule 4.2.
func (qs questions) answerQuestion(t *state.Task, q *state.Question, c conversation.Say, text string) *conversation.Error {
	a := q.Asked.Approval
	approved, args := false, ""
	if a != nil {
		var err *conversation.Error
		if approved, args, err = intake.Verdict(*a, text, qs.rules.CheckOf(a.Tool)); err != nil {
			return err
		}
	}
	if choice, is := intake.Choice(q.Asked.Choices, text); is && a == nil {
		text = choice // as the question says it
	}
	old := t.Status
	c.Mode = conversation.ModeDefault
	qs.inbox().accept(c, t.ID(), conversation.MessageAccepted{Disposition: conversation.Answered, Question: q.Asked.Question})
	receipt := qs.out.Receipt
	qs.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Message: receipt.Message, Text: text, By: string(c.Author)})
	qs.emit(t, conversation.MessageResolved{Message: receipt.Message, How: conversation.ResolvedMerged, Question: q.Asked.Question})
	switch {
	case q.Own() && a != nil:
		qs.calls().decideApproval(t, a, approved, args)
	default:
		qs.handOver(q.Asked, text, c.Author)
	}
	receipt.OldStatus, receipt.NewStatus = old, old
	if old == conversation.TaskAwaiting && !t.Awaits() {
		receipt.NewStatus = conversation.TaskQueued
	}
	qs.out.Receipt = receipt
	return nil
}

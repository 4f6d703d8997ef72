package machine

import (
	"encoding/json"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/machine/internal/intake"
	"parley/conversation/machine/internal/plan"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Questions: blocking and not, the task's own and its delegations', and
// approvals. docs/MACHINE.md, section 4.

// ask opens a question of the task's own. A kept reply answers it at once.
// Rule 4.9.
func (qs questions) ask(t *state.Task, b conversation.Asked) {
	b.Question = qs.state.QuestionID(qs.state.Questions + 1)
	qs.emit(t, b)
	if qs.state.Key.Session.Depth() > 0 {
		qs.do(conversation.ReportQuestion{Asked: b})
	}
	if b.Approval != nil {
		return
	}
	for _, m := range t.Messages {
		if m.Deferred {
			qs.emit(t, conversation.QuestionAnswered{Question: b.Question, Message: m.ID, Text: m.Text, By: string(m.Author)})
			qs.resolve(t, m.ID, conversation.ResolvedMerged, b.Question)
			return
		}
	}
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
	if a := q.Asked.Approval; a != nil {
		if c := t.Call(a.Call); c != nil {
			qs.calls().finishTool(t, c, conversation.CallDenied, "not allowed: nobody answered in time", 0)
		}
	}
}

const byDefault = "default"

// supersede is rule 2.7: messages that the task read after a non-blocking question
// was asked, and that are still open, have taken its place. It counts the questions that this closed.
// Rule 4.5.
func (qs questions) supersede(t *state.Task) (closed int) {
	for _, q := range slices.Clone(t.Questions) {
		if !q.Own() || q.Asked.Blocking {
			continue
		}
		for _, m := range t.Messages {
			if m.Read > q.Seq && m.ID != t.Trigger {
				qs.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionSuperseded})
				qs.resolve(t, m.ID, conversation.ResolvedMerged, q.Asked.Question)
				closed++
				break
			}
		}
	}
	return closed
}

// answerPlain gives a message to an open question: to the one that it names in its
// in_reply_to; a plain one to the newest that takes it, or with "/answer" to the
// newest question of any kind.
// Rule 4.1.
func (qs questions) answerPlain(c conversation.Say) (bool, *conversation.Error) {
	kind, text := intake.Classify(c.Text, true)
	if kind != intake.Answer {
		text = c.Text
	}
	if t, q := qs.state.Question(conversation.QuestionID(c.InReplyTo)); q != nil && mayAnswer(q, text) {
		if choice, is := intake.NumberedChoice(q.Asked.Choices, text); is && q.Asked.Approval == nil {
			text = choice
		}
		return true, qs.answerQuestion(t, q, c, text)
	}
	if c.Mode != conversation.ModeDefault {
		return false, nil
	}
	if kind == intake.Answer {
		t, q := qs.state.NewestQuestion(func(_ *state.Task, q *state.Question) bool { return mayAnswer(q, text) })
		if q == nil { // an approval says what it takes
			t, q = qs.state.NewestQuestion(func(*state.Task, *state.Question) bool { return true })
		}
		if q == nil {
			return true, conversation.Errorf(conversation.QuestionNotOpen, "no question is open in this session")
		}
		return true, qs.answerQuestion(t, q, c, text)
	}
	t, q := qs.state.NewestQuestion(func(t *state.Task, q *state.Question) bool {
		_, taken := takes(t, q, text)
		return taken
	})
	if q == nil {
		return false, nil
	}
	text, _ = takes(t, q, text)
	return true, qs.answerQuestion(t, q, c, text)
}

// takes says whether a question takes a plain message, and what counts as its answer.
// Rules 4.1a, 4.1b.
func takes(t *state.Task, q *state.Question, text string) (answer string, taken bool) {
	switch {
	case !q.Asked.Blocking, !q.Own() && t.Status != conversation.TaskAwaiting:
		return "", false
	case q.Asked.Approval != nil:
		kind, _ := intake.Classify(text, true)
		return text, kind == intake.Yes || kind == intake.No
	case len(q.Asked.Choices) > 0:
		return intake.NumberedChoice(q.Asked.Choices, text)
	default:
		return text, true
	}
}

// mayAnswer is true for any text, if it is given to a question and not to an approval:
// that takes a word for yes or no, or what its card says.
// Rule 4.3.
func mayAnswer(q *state.Question, text string) bool {
	if q.Asked.Approval == nil {
		return true
	}
	kind, _ := intake.Classify(text, true)
	return kind == intake.Yes || kind == intake.No || plan.IsObject(text)
}

// Rules 4.1, 4.4.
func (qs questions) decideAnswer(c conversation.Answer) *conversation.Error {
	say := conversation.Say{Author: c.Author, Via: c.Via, ClientMsgID: c.ClientMsgID, Text: c.Text}
	if strings.TrimSpace(c.Text) == "" {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	if done, err := qs.inbox().duplicate(c.Author, c.ClientMsgID, c.Text, c.Duplicate); done || err != nil {
		return err
	}
	if qs.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed and takes no more messages")
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
	if qs.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed and takes no more messages")
	}
	say := conversation.Say{Author: c.Author, Via: c.Via, ClientMsgID: c.ClientMsgID, Text: text}
	t := qs.state.Task(c.Task)
	if t == nil {
		if n := conversation.Ordinal(string(c.Task), 't'); n > 0 && n <= qs.state.TaskCount && qs.state.TaskID(n) == c.Task {
			return conversation.Errorf(conversation.TaskNotAwaiting, "the task has ended")
		}
		return conversation.Errorf(conversation.NotFound, "there is no such task")
	}
	if t.Status == conversation.TaskAwaiting && t.Cancelling == nil {
		if _, q := qs.state.NewestQuestion(func(qt *state.Task, _ *state.Question) bool { return qt == t }); q != nil {
			if !mayAnswer(q, text) {
				return conversation.Errorf(conversation.BadRequest, "the task waits for an approval: reply yes or no")
			}
			return qs.answerQuestion(t, q, say, text)
		}
	}
	if qs.policy.ReplyOnBusy == policy.ReplyQueue && t.Cancelling == nil {
		if full := qs.inboxFull(); full != nil {
			return full
		}
		qs.inbox().accept(say, qs.state.TaskID(t.N), conversation.MessageAccepted{Disposition: conversation.Joined, Deferred: true})
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
		if approved, args, err = qs.verdict(a, text); err != nil {
			return err
		}
	}
	if choice, is := intake.Choice(q.Asked.Choices, text); is && a == nil {
		text = choice // as the question says it
	}
	old := t.Status
	c.Mode = conversation.ModeDefault
	qs.inbox().accept(c, qs.state.TaskID(t.N), conversation.MessageAccepted{Disposition: conversation.Answered, Question: q.Asked.Question})
	receipt := qs.out.Receipt
	qs.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Message: receipt.Message, Text: text, By: string(c.Author)})
	qs.emit(t, conversation.MessageResolved{Message: receipt.Message, How: conversation.ResolvedMerged, Question: q.Asked.Question})
	switch {
	case !q.Own():
		qs.do(conversation.RouteAnswer{Delegation: q.Asked.Delegation, Question: state.Inner(q.Asked.Question), Text: text, By: c.Author})
	case a != nil:
		qs.calls().decideApproval(t, a, approved, args)
	}
	receipt.OldStatus, receipt.NewStatus = old, old
	if old == conversation.TaskAwaiting && !qs.awaits(t) {
		receipt.NewStatus = conversation.TaskQueued
	}
	qs.out.Receipt = receipt
	return nil
}

// verdict reads the answer to an approval: a word for yes or no, or a JSON
// object: the edited arguments, or {"approve":bool,"args":{…}} from a card.
// Rule 4.3.
func (qs questions) verdict(a *conversation.Approval, text string) (approved bool, args string, err *conversation.Error) {
	switch kind, _ := intake.Classify(text, true); kind {
	case intake.Yes:
		return true, a.Args, nil
	case intake.No:
		return false, "", nil
	}
	if !plan.IsObject(text) {
		return false, "", conversation.Errorf(conversation.BadRequest, "this question asks for an approval: answer yes or no, or send edited arguments as a JSON object")
	}
	args = text
	var card struct {
		Approve *bool           `json:"approve"`
		Args    json.RawMessage `json:"args"`
	}
	if json.Unmarshal([]byte(text), &card) == nil && card.Approve != nil {
		if !*card.Approve {
			return false, "", nil
		}
		args = a.Args
		if len(card.Args) > 0 {
			args = string(card.Args)
		}
	}
	if rule, known := qs.rules.Tools[a.Tool]; known && rule.Check != nil {
		if problem := rule.Check(json.RawMessage(args)); problem != nil {
			return false, "", conversation.Errorf(conversation.BadRequest, "the edited arguments do not fit the tool: %v", problem)
		}
	}
	return true, args, nil
}

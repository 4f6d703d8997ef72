package machine

import (
	"encoding/json"
	"strings"
	"time"

	"parley/conversation"
)

// Questions: blocking and not, the task's own and its delegations', and
// approvals. machine.md, section 4.

// ask opens a question of the task's own. A kept reply answers it at once.
func (s *Session) ask(t *task, b conversation.Asked) {
	b.Question = s.questionID(s.state.Questions + 1)
	s.emit(t, b)
	if s.key.Session.Depth() > 0 {
		s.do(conversation.ReportQuestion{Asked: b})
	}
	if b.Approval != nil {
		return
	}
	for _, m := range t.Messages {
		if m.Kept {
			s.emit(t, conversation.QuestionAnswered{Question: b.Question, Message: m.ID, Text: m.Text, By: string(m.Author)})
			s.resolve(t, m.ID, conversation.ResolvedMerged, nil, b.Question)
			return
		}
	}
}

func (s *Session) applyAsked(e conversation.Event, t *task, b conversation.Asked) {
	if n := conversation.Ordinal(string(b.Question), 'q'); b.Delegation == "" && n > 0 {
		s.state.Questions = max(s.state.Questions, n)
	}
	if t == nil {
		return
	}
	t.Questions = append(t.Questions, &question{Asked: b, Seq: e.Seq, At: e.At, Step: t.LastStep})
	if b.Approval != nil && b.Delegation == "" {
		s.state.Calls = max(s.state.Calls, conversation.Ordinal(string(b.Approval.Call), 'c'))
		t.Calls = append(t.Calls, &call{ID: b.Approval.Call, Step: t.LastStep, Tool: b.Approval.Tool, Held: true, Seq: e.Seq, At: e.At})
	}
}

// applyQuestionAnswered closes a question. The answer is unseen, unless the
// model itself gave it by covering a message that it had read.
func (s *Session) applyQuestionAnswered(b conversation.QuestionAnswered) {
	t, q := s.question(b.Question)
	if q == nil {
		return
	}
	t.closeQuestion(b.Question)
	if !q.own() {
		if c := t.call(q.Asked.Delegation); c != nil {
			if c.Answers == nil {
				c.Answers = map[conversation.QuestionID]reply{}
			}
			c.Answers[inner(b.Question)] = reply{Text: b.Text, By: conversation.UserID(b.By)}
		}
		return
	}
	if m := t.message(b.Message); m != nil && m.Read != 0 {
		return
	}
	if q.Asked.Approval == nil { // an approval's result is the call's
		t.News = true
	}
}

func (s *Session) applyQuestionClosed(b conversation.QuestionClosed) {
	t, q := s.question(b.Question)
	if q == nil {
		return
	}
	t.closeQuestion(b.Question)
	if q.own() && b.Reason == conversation.QuestionExpired && q.Asked.Approval == nil {
		t.News = true
	}
}

func (t *task) closeQuestion(id conversation.QuestionID) {
	for i, q := range t.Questions {
		if q.Asked.Question == id {
			t.Questions = append(t.Questions[:i:i], t.Questions[i+1:]...)
			return
		}
	}
}

// inner is a delegation's question as its own session calls it: "d1.q2" → "q2".
func inner(id conversation.QuestionID) conversation.QuestionID {
	if i := strings.IndexByte(string(id), '.'); i >= 0 {
		return id[i+1:]
	}
	return id
}

func outer(d conversation.CallID, id conversation.QuestionID) conversation.QuestionID {
	return conversation.QuestionID(d) + "." + id
}

// closeQuestions closes all questions of a task without an answer.
func (s *Session) closeQuestions(t *task, why conversation.ClosedReason) {
	for _, q := range append([]*question(nil), t.Questions...) {
		s.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: why})
		if q.own() && s.key.Session.Depth() > 0 {
			s.do(conversation.ReportQuestionClosed{Question: q.Asked.Question, Reason: why})
		}
	}
}

// expire closes a question whose time is over: by its default, or as expired.
func (s *Session) expire(t *task, q *question) {
	if s.key.Session.Depth() > 0 {
		s.do(conversation.ReportQuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionExpired, Default: q.Asked.Default})
	}
	if q.Asked.Default != nil {
		s.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Text: *q.Asked.Default, By: byDefault})
		return
	}
	s.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionExpired})
	if a := q.Asked.Approval; a != nil {
		if c := t.call(a.Call); c != nil {
			s.finishTool(t, c, conversation.CallDenied, "not allowed: nobody answered in time", 0)
		}
	}
}

const byDefault = "default"

// supersede is line 7: messages that the task read after a non-blocking question
// was asked, and that are still open, have taken its place. False if none has.
func (s *Session) supersede(t *task) bool {
	done := false
	for _, q := range append([]*question(nil), t.Questions...) {
		if !q.own() || q.Asked.Blocking {
			continue
		}
		for _, m := range t.Messages {
			if m.Read > q.Seq && m.ID != t.Trigger {
				s.emit(t, conversation.QuestionClosed{Question: q.Asked.Question, Reason: conversation.QuestionSuperseded})
				s.resolve(t, m.ID, conversation.ResolvedMerged, nil, q.Asked.Question)
				done = true
				break
			}
		}
	}
	return done
}

// answerPlain gives a plain message to an open question: the newest blocking
// one takes it; an approval takes yes and no only; "/answer" goes to the newest
// question of any kind.
func (s *Session) answerPlain(c conversation.Say) (bool, *conversation.Error) {
	kind, text := Intake(c.Text, true)
	if kind == IntakeAnswer {
		if t, q := s.newestQuestion(func(*task, *question) bool { return true }); q != nil {
			return true, s.answerQuestion(t, q, c, text)
		}
		return true, conversation.Errorf(conversation.QuestionNotOpen, "no question is open in this session")
	}
	t, q := s.newestQuestion(func(_ *task, q *question) bool {
		if !q.Asked.Blocking {
			return false
		}
		return q.Asked.Approval == nil || kind == IntakeYes || kind == IntakeNo
	})
	if q == nil {
		return false, nil
	}
	return true, s.answerQuestion(t, q, c, c.Text)
}

// newestQuestion is the newest eligible blocking question, else the newest
// eligible one. Tasks that are being cancelled have none.
func (s *Session) newestQuestion(eligible func(*task, *question) bool) (*task, *question) {
	var bt *task
	var best *question
	for _, t := range s.state.Tasks {
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

func (s *Session) decideAnswer(c conversation.Answer) *conversation.Error {
	say := conversation.Say{Author: c.Author, Via: c.Via, ClientMsgID: c.ClientMsgID, Text: c.Text}
	if strings.TrimSpace(c.Text) == "" {
		return conversation.Errorf(conversation.BadRequest, "text must not be blank")
	}
	if done, err := s.duplicate(c.Author, c.ClientMsgID, c.Text, c.Duplicate); done || err != nil {
		return err
	}
	if s.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed and takes no more messages")
	}
	t, q := s.question(c.Question)
	if q == nil {
		if s.existed(c.Question) {
			return conversation.Errorf(conversation.QuestionNotOpen, "the question is not open any more")
		}
		return conversation.Errorf(conversation.NotFound, "there is no such question in this session")
	}
	return s.answerQuestion(t, q, say, c.Text)
}

func (s *Session) existed(id conversation.QuestionID) bool {
	if d, _, sub := strings.Cut(string(id), "."); sub {
		n := conversation.Ordinal(d, 'd')
		return n > 0 && n <= s.state.Delegations
	}
	n := conversation.Ordinal(string(id), 'q')
	return n > 0 && n <= s.state.Questions
}

// decideReply is the reply route of the tasks API.
func (s *Session) decideReply(c conversation.Reply) *conversation.Error {
	text := strings.TrimSpace(c.Text)
	if text == "" {
		return conversation.Errorf(conversation.BadRequest, "reply must not be blank")
	}
	if done, err := s.duplicate(c.Author, c.ClientMsgID, text, c.Duplicate); done || err != nil {
		return err
	}
	if s.state.Closed {
		return conversation.Errorf(conversation.SessionIsClosed, "the session is closed and takes no more messages")
	}
	say := conversation.Say{Author: c.Author, Via: c.Via, ClientMsgID: c.ClientMsgID, Text: text}
	t := s.task(c.Task)
	if t == nil {
		if n := conversation.Ordinal(string(c.Task), 't'); n > 0 && n <= s.state.TaskCount && s.taskID(n) == c.Task {
			return conversation.Errorf(conversation.TaskNotAwaiting, "the task has ended")
		}
		return conversation.Errorf(conversation.NotFound, "there is no such task")
	}
	if t.Status == conversation.TaskAwaiting && t.Cancelling == nil {
		if _, q := s.newestQuestion(func(qt *task, _ *question) bool { return qt == t }); q != nil {
			if q.Asked.Approval != nil {
				if kind, _ := Intake(text, true); kind != IntakeYes && kind != IntakeNo && !isObject(text) {
					return conversation.Errorf(conversation.BadRequest, "the task waits for an approval: reply yes or no")
				}
			}
			return s.answerQuestion(t, q, say, text)
		}
	}
	if s.policy.ReplyOnBusy == conversation.ReplyQueue && t.Cancelling == nil {
		if full := s.inboxFull(); full != nil {
			return full
		}
		s.accept(say, s.taskID(t.N), conversation.MessageAccepted{Disposition: conversation.Joined, Kept: true})
		s.out.Receipt.Kept, s.out.Receipt.OldStatus, s.out.Receipt.NewStatus = true, t.Status, t.Status
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
func (s *Session) answerQuestion(t *task, q *question, c conversation.Say, text string) *conversation.Error {
	a := q.Asked.Approval
	approved, args := false, ""
	if a != nil {
		var err *conversation.Error
		if approved, args, err = s.verdict(a, text); err != nil {
			return err
		}
	}
	old := t.Status
	c.Mode = conversation.ModeDefault
	s.accept(c, s.taskID(t.N), conversation.MessageAccepted{Disposition: conversation.Answered, Question: q.Asked.Question})
	receipt := s.out.Receipt
	s.emit(t, conversation.QuestionAnswered{Question: q.Asked.Question, Message: receipt.Message, Text: text, By: string(c.Author)})
	s.emit(t, conversation.MessageResolved{Message: receipt.Message, How: conversation.ResolvedMerged, Question: q.Asked.Question})
	switch {
	case !q.own():
		s.do(conversation.RouteAnswer{Delegation: q.Asked.Delegation, Question: inner(q.Asked.Question), Text: text, By: c.Author})
	case a != nil:
		s.decideApproval(t, a, approved, args)
	}
	receipt.OldStatus, receipt.NewStatus = old, old
	if old == conversation.TaskAwaiting && !s.awaits(t) {
		receipt.NewStatus = conversation.TaskQueued
	}
	s.out.Receipt = receipt
	return nil
}

// verdict reads the answer to an approval: a word for yes or no, or a JSON
// object: the edited arguments, or {"approve":bool,"args":{…}} from a card.
func (s *Session) verdict(a *conversation.Approval, text string) (approved bool, args string, err *conversation.Error) {
	switch kind, _ := Intake(text, true); kind {
	case IntakeYes:
		return true, a.Args, nil
	case IntakeNo:
		return false, "", nil
	}
	if !isObject(text) {
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
	if rule, known := s.rules.Tools[a.Tool]; known && rule.Check != nil {
		if problem := rule.Check(json.RawMessage(args)); problem != nil {
			return false, "", conversation.Errorf(conversation.BadRequest, "the edited arguments do not fit the tool: %v", problem)
		}
	}
	return true, args, nil
}

func isObject(text string) bool {
	trimmed := strings.TrimSpace(text)
	return strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed))
}

// maxDeadline is how far ahead a time of a model's arguments may lie. It keeps
// every stored time within what JSON can say, and what would never come out.
const maxDeadline = 365 * 24 * time.Hour

// deadline reads a duration ("10m") or an RFC 3339 time of a model's arguments.
func (s *Session) deadline(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	if d, notDuration := time.ParseDuration(text); notDuration == nil {
		at, err = s.now.Add(d), nil
	}
	if ahead := at.Sub(s.now); err != nil || ahead <= 0 || ahead > maxDeadline {
		return time.Time{}, false
	}
	return conversation.Stamp(at), true
}

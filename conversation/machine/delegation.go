package machine

import (
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/plan"
	"parley/conversation/machine/internal/state"
)

// Delegations, as the parent session sees them.

// delegationDone ends a delegation; its open questions end with it.
// Rule 5.11.
func (cs calls) delegationDone(c conversation.DelegationDone) {
	if t, open := cs.state.Call(c.Delegation); open != nil && open.Delegation() {
		cs.finishDelegation(t, open, c.Status, c.Summary, c.Took)
	}
}

func (cs calls) finishDelegation(t *state.Task, c *state.Call, status conversation.CallStatus, summary string, took time.Duration) {
	cs.questions().closeOf(t, c)
	cs.emit(t, conversation.DelegationFinished{Delegation: c.ID, Status: status, Summary: summary, Took: took})
}

// delegationAsked records a delegation's question here too: its user is this
// session's user. Asked again, an answered question is answered again.
// Rules 4.9, 5.6.
func (cs calls) delegationAsked(c conversation.DelegationAsked) {
	t, d := cs.awaited(c.Delegation)
	if d == nil {
		return
	}
	if a, done := d.Answers[c.Question]; done {
		cs.do(conversation.RouteAnswer{Delegation: c.Delegation, Question: c.Question, Text: a.Text, By: a.By})
		return
	}
	id := state.Outer(c.Delegation, c.Question)
	if t.Question(id) != nil {
		return
	}
	b := conversation.Asked{
		Question: id, Text: c.Text, Blocking: true, Choices: c.Choices, ExpiresAt: c.ExpiresAt, Default: c.Default,
		Delegation: c.Delegation, Approval: c.Approval, About: t.AboutDelegation(d),
	}
	cs.emit(t, b)
	if cs.state.Key.Session.Depth() > 0 {
		cs.do(conversation.ReportQuestion{Asked: b})
	}
	if b.Approval == nil {
		cs.questions().meetKept(t)
	}
}

// awaited finds a running delegation, and its task. One that this session does
// not wait for, or not any more, gets the order to cancel itself.
func (cs calls) awaited(id conversation.CallID) (*state.Task, *state.Call) {
	t, d := cs.state.Call(id)
	if d == nil || !d.Delegation() || t.Stops(cs.maxSteps()) {
		cs.do(conversation.RefuseDelegation{Delegation: id})
		return nil, nil
	}
	return t, d
}

// delegationQuestions closes what a delegation has not open any more: it has
// said so before, but a crash came before this session had stored it.
// Rules 5.5, 5.6.
func (cs calls) delegationQuestions(c conversation.DelegationQuestions) {
	t, d := cs.awaited(c.Delegation)
	if d == nil {
		return
	}
	for _, q := range slices.Clone(t.Questions) {
		id := state.Inner(q.Asked.Question)
		if q.Asked.Delegation != c.Delegation || slices.Contains(c.Open, id) {
			continue
		}
		closed := conversation.DelegationQuestionClosed{Delegation: c.Delegation, Question: id, Reason: conversation.QuestionCancelled}
		if !q.Asked.ExpiresAt.IsZero() {
			closed.Reason, closed.Default = conversation.QuestionExpired, q.Asked.Default
		}
		cs.delegationQuestionClosed(closed)
	}
}

func (cs calls) delegationQuestionClosed(c conversation.DelegationQuestionClosed) {
	id := state.Outer(c.Delegation, c.Question)
	t, q := cs.state.Question(id)
	if q == nil {
		return
	}
	if cs.state.Key.Session.Depth() > 0 {
		cs.do(conversation.ReportQuestionClosed{Question: id, Reason: c.Reason, Default: c.Default})
	}
	if c.Reason == conversation.QuestionExpired && c.Default != nil {
		cs.emit(t, conversation.QuestionAnswered{Question: id, Text: *c.Default, By: byDefault})
		return
	}
	cs.emit(t, conversation.QuestionClosed{Question: id, Reason: c.Reason})
}

// startDelegations journals the delegations of one call; they are sent when that
// is durable.
func (cs calls) startDelegations(t *state.Task, jobs []plan.Job, modelCall string) {
	for _, j := range jobs {
		id := conversation.CallID(fmt.Sprintf("d%d", cs.state.Delegations+1))
		b := conversation.DelegationStarted{
			Delegation: id, Agent: j.Agent, Objective: j.Objective, Session: cs.state.Key.Session + "/" + conversation.SessionID(id),
			Deadline: j.Deadline, ModelCall: modelCall,
		}
		e := cs.emit(t, b)
		cs.do(conversation.StartDelegation{
			Task: e.Task, Call: id, Agent: j.Agent, Session: b.Session, Objective: j.Objective, Seq: e.Seq, Deadline: j.Deadline,
		})
	}
}

package machine

import (
	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// A sub-session: what its parent tells it, and what it tells its parent.

// decideTell is a sub-session's first message; repeated, it answers with the
// result, or with every open question.
// Rules 5.4, 5.7.
func (cs calls) decideTell(c conversation.Tell) *conversation.Error {
	if cs.state.Exists() {
		cs.out.Receipt.Duplicate = true
		if cs.state.Final != nil && cs.state.Final.Status != 0 {
			cs.report()
			return nil
		}
		for _, t := range cs.state.Tasks {
			cs.reportQuestions(t)
		}
		return nil
	}
	if cs.state.Key.Session.Depth() == 0 {
		return conversation.Errorf(conversation.BadRequest, "only a delegation's session is told an objective")
	}
	if _, ok := cs.rules.Agents[c.Agent]; !ok {
		return conversation.Errorf(conversation.NotFound, "there is no agent %q", c.Agent)
	}
	cs.emit(nil, conversation.SessionCreated{Title: state.FirstWords(c.Objective), Agent: c.Agent, Owner: c.Owner, Access: c.Access, Policy: policy.Canonical(c.Policy), Lifted: c.Lifted})
	say := conversation.Say{Author: c.Owner, Via: conversation.ViaDelegation, ClientMsgID: "tell", Text: c.Objective}
	id := cs.state.TaskID(1)
	cs.inbox().accept(say, id, conversation.MessageAccepted{Disposition: conversation.Started})
	cs.noteRow(cs.state.Task(id), nil)
	return nil
}

// reportQuestions tells the parent of a sub-session what is open, and that
// nothing else is.
// Rule 5.4.
func (cs calls) reportQuestions(t *state.Task) {
	var open []conversation.QuestionID
	for _, q := range t.Questions {
		cs.do(conversation.ReportQuestion{Asked: q.Asked})
		open = append(open, q.Asked.Question)
	}
	cs.do(conversation.ReportQuestions{Open: open})
}

// acceptAmendment joins a text of the parent to the sub-session's only task.
// Rule 5.7.
func (cs calls) acceptAmendment(c conversation.Say) *conversation.Error {
	for _, t := range cs.state.Tasks {
		if t.Cancelling == nil {
			return cs.inbox().join(c, t)
		}
	}
	return conversation.Errorf(conversation.Conflict, "the delegation has ended and cannot be amended")
}

// report tells the parent how the sub-session's task ended.
func (d *decision) report() {
	f := d.state.Final
	r := conversation.Report{Status: f.Status, Seq: f.Response}
	for _, e := range d.out.Events {
		if b, ok := e.Body.(conversation.Response); ok && e.Seq == f.Response {
			r.Summary = b.Text
		}
	}
	d.do(r)
}

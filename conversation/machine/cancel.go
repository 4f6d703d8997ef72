package machine

import (
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// decideCancel ends a task early on somebody's word. Without the name of a task it is
// the one that holds its user up: the RUNNING one, else the newest that waits.
// Rules 7.6, 7.6a.
func (d ends) decideCancel(c conversation.Cancel) *conversation.Error {
	if d.state.Key.Session.Depth() > 0 && c.By != conversation.ByParent {
		return conversation.Errorf(conversation.Forbidden, "a delegation's session can only be read")
	}
	if done, err := d.cancelledBefore(c); done || err != nil {
		return err
	}
	var t *state.Task
	switch {
	case c.Task != "":
		t = d.state.Task(c.Task)
	case c.By == conversation.ByParent && len(d.state.Tasks) > 0:
		t = d.state.Tasks[0]
	default:
		t = d.stoppable()
	}
	if t == nil && c.Task == "" && c.Drop && c.By == conversation.ByUser {
		d.dropWaiting(nil, c, d.state.Head)
		return nil
	}
	if t == nil {
		if c.By == conversation.ByParent && d.state.Final != nil {
			d.report() // the parent asks again: it has not heard
			return nil
		}
		return conversation.Errorf(conversation.NotFound, "there is no task to cancel")
	}
	d.out.Receipt.Task, d.out.Receipt.OldStatus = t.ID(), t.Status
	before := d.state.Head
	said := conversation.TaskCancelling{By: c.By, Reason: c.Reason, Drop: c.Drop, Author: c.Author, ClientMsgID: c.ClientMsgID}
	if t.Cancelling == nil {
		d.beginCancel(t, said)
	} else {
		d.cancelAgain(t, said)
	}
	if c.Drop {
		d.dropWaiting(t, c, before)
	}
	return nil
}

// stoppable is the task that a stop means which names none; nil = there is none.
// Rule 7.6a.
func (d ends) stoppable() *state.Task {
	newest := d.state.Running()
	for _, t := range d.state.Tasks {
		if t.Status == conversation.TaskAwaiting && t.Cancelling == nil && (newest == nil || newest.Status == conversation.TaskAwaiting && t.N > newest.N) {
			newest = t
		}
	}
	return newest
}

// cancelAgain takes a cancel of a task that is being cancelled already: the log
// keeps the client's id, and what the first one did not drop may be dropped.
func (d ends) cancelAgain(t *state.Task, said conversation.TaskCancelling) {
	if said.ClientMsgID != "" {
		said.Until = t.Cancelling.Until
		d.emit(t, said)
	}
	if !said.Drop {
		return
	}
	for _, m := range slices.Clone(t.Messages) {
		if m.Read == 0 {
			d.resolve(t, m.ID, conversation.ResolvedCancelled, "")
		}
	}
}

// dropWaiting cancels the other tasks that waited for their first run when the
// cancel came.
func (d ends) dropWaiting(t *state.Task, c conversation.Cancel, before conversation.Seq) {
	for _, other := range slices.Clone(d.state.Tasks) {
		if other != t && other.Status == conversation.TaskQueued && !other.Ran() && other.First <= before && other.Cancelling == nil {
			said := conversation.TaskCancelling{By: c.By, Reason: c.Reason}
			if t == nil { // the command's id is kept with the first of them
				t, said.Drop, said.Author, said.ClientMsgID = other, true, c.Author, c.ClientMsgID
				d.out.Receipt.Task, d.out.Receipt.OldStatus = t.ID(), t.Status
			}
			d.beginCancel(other, said)
		}
	}
}

// cancelledBefore answers a cancel that a client repeats as the first time,
// whatever runs by now.
// Rule 7.7.
func (d ends) cancelledBefore(c conversation.Cancel) (bool, *conversation.Error) {
	dup, n := d.state.Repeated(c.Author, c.ClientMsgID, c.DedupText(), c.Duplicate)
	if c.ClientMsgID == "" || dup == nil {
		return false, nil
	}
	if n > 0 {
		dup.Task = d.state.TaskID(n)
	}
	if !dup.SameText || c.Task != "" && c.Task != dup.Task {
		return false, conversation.Errorf(conversation.Conflict, "the id %q was used for another command", c.ClientMsgID)
	}
	d.out.Receipt = conversation.Receipt{Task: dup.Task, Seq: dup.Seq, Duplicate: true}
	return true, nil
}

// cancelTask is the first phase of an early end: nothing new is started, and
// everything open gets the order to stop. settle does the second when all has stopped.
func (d *decision) cancelTask(t *state.Task, by conversation.CancelBy, reason string, failure *conversation.Failure, drop bool) {
	d.ends().beginCancel(t, conversation.TaskCancelling{By: by, Reason: reason, Error: failure, Drop: drop})
}

// Rule 7.3.
func (d ends) beginCancel(t *state.Task, said conversation.TaskCancelling) {
	said.Until = d.now.Add(d.grace(t))
	d.emit(t, said)
	if st := t.Step; st != nil {
		if said.By == conversation.ByUser || said.By == conversation.ByInterrupt {
			d.keepShown(t)
		}
		d.do(conversation.StopModel{Step: st.N})
		if d.asking != st.Name() {
			d.stepStopped(t, conversation.StepFinished{Outcome: conversation.StepCancelled}) // nothing of it runs
		}
	}
	d.questions().closeQuestions(t, conversation.QuestionCancelled)
	d.calls().stopCalls(t)
}

// end is the second phase: CANCELLED or ERROR.
// Rules 7.3, 7.10.
func (d *decision) end(t *state.Task) {
	c := t.Cancelling
	status, how := conversation.TaskCancelled, conversation.ResolvedCancelled
	if c.By == conversation.ByError {
		status, how = conversation.TaskError, conversation.ResolvedFailed
		text := d.policy.Texts.Failed
		if c.Error != nil && t.Interrupted {
			text = c.Error.Message
		}
		if c.Error != nil && (c.Error.Code == conversation.Overloaded || c.Error.Code == conversation.Timeout || c.Error.Code == conversation.Forbidden) {
			text = c.Error.Message // these are sentences for the user
		}
		d.emit(t, conversation.Response{Part: d.state.NextPart(t, text, "", ""), ResponseKind: conversation.ResponseError})
	}
	for _, m := range slices.Clone(t.Messages) {
		if m.Read != 0 || !t.Ran() && !m.Deferred || c.Drop && m.Seq < c.Seq || d.state.Key.Session.Depth() > 0 {
			d.resolve(t, m.ID, how, "")
		}
	}
	d.requeue(t)
	d.setStatus(t, status, "", c.Error)
	if d.state.Key.Session.Depth() > 0 {
		d.report()
	}
}

// keepShown makes parts of what followers have seen of the open step. They are no
// answer: nobody knows what would have followed.
// Rule 7.10.
func (d ends) keepShown(t *state.Task) {
	var texts []pendingText
	for _, draft := range d.shown {
		if draft.Draft.Of(t.Step.Name()) && !conversation.IsBlank(draft.Text) {
			texts = d.joined(texts, pendingText{text: strings.ToValidUTF8(draft.Text, "\uFFFD"), draft: draft.Draft})
		}
	}
	for i, p := range texts {
		part := d.state.NextPart(t, p.text, t.Guess(nil), p.draft)
		part.Guessed, part.Cut = true, i == len(texts)-1
		d.emit(t, conversation.PartialResponse{Part: part})
	}
}

// modelStopped closes the step of a task that is being cancelled: its model call has
// ended.
// Rule 7.3.
func (d ends) modelStopped(c conversation.ModelStopped) {
	t := d.state.StepOf(c.Step, c.Attempt)
	if t == nil || t.Cancelling == nil {
		return
	}
	finished := conversation.StepFinished{Outcome: conversation.StepCancelled, Took: c.Took}
	if c.Usage != nil {
		finished.Usage = *c.Usage
	}
	d.stepStopped(t, finished)
}

// killMargin is how much longer than it may take the end of a model call is awaited.
const killMargin = 2 * time.Second

// grace is how long the calls of a task may take to end when they are stopped.
// Rule 7.3.
func (d ends) grace(t *state.Task) time.Duration {
	grace := d.policy.CancelGrace
	if t.Step == nil {
		return grace
	}
	if kill := d.rules.Agent(t.Step.Agent).KillTime; kill > 0 {
		grace = max(grace, kill+killMargin)
	}
	return grace
}

// interruptedStep ends a task whose model acts and was lost while it did: nobody knows
// what it has done, and it must not do it twice.
// Rule 1.13.
func (d ends) interruptedStep(t *state.Task) {
	failure := &conversation.Failure{Code: conversation.Unavailable, Message: d.policy.Texts.Interrupted}
	d.emit(t, conversation.StepFinished{Step: t.Step.N, Attempt: t.Step.Attempt, Outcome: conversation.StepUnknown, Error: failure})
	d.cancelTask(t, conversation.ByError, "the model was interrupted", failure, false)
}

// stepStopped closes the open step of a task that is being cancelled.
func (d ends) stepStopped(t *state.Task, finished conversation.StepFinished) {
	finished.Step, finished.Attempt = t.Step.N, t.Step.Attempt
	d.emit(t, finished)
}

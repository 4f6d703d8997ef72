package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// The life of a task: how it is queued, runs, waits and ends. The lines are
// those of the settle rule, docs/MACHINE.md, section 2.

// setStatus moves a task on, and notes its row for the list of tasks.
func (d *decision) setStatus(t *state.Task, next conversation.TaskStatus, reason string, failure *conversation.Failure) {
	d.emit(t, conversation.TaskStatusChanged{Trigger: t.Trigger, Old: t.Status, New: next, Reason: reason, Error: failure})
	d.noteRow(t, failure)
}

func (d *decision) noteRow(t *state.Task, failure *conversation.Failure) {
	row := conversation.TaskRow{
		Key: d.state.Key, Task: d.state.TaskID(t.N), Status: t.Status, Agent: d.state.Agent, Owner: d.state.Owner,
		Trigger: t.Trigger, CreatedAt: t.Created, UpdatedAt: t.Updated, First: t.First, Last: t.Last, Error: failure,
	}
	for i := range d.out.Rows {
		if d.out.Rows[i].Task == row.Task {
			d.out.Rows[i] = row
			return
		}
	}
	d.out.Rows = append(d.out.Rows, row)
}

// requeue makes one task of the messages that an ending task never read. It is
// born before the old one ends, so that no message is ever without a task.
// Rule 7.5.
func (d *decision) requeue(t *state.Task) { d.leave(t, t.Messages) }

// leave makes one task of messages that their task is not going to read.
func (d *decision) leave(t *state.Task, messages []*state.Message) {
	if len(messages) == 0 {
		return
	}
	ids := make([]conversation.MessageID, len(messages))
	for i, m := range messages {
		ids[i] = m.ID
	}
	id := d.state.TaskID(d.state.TaskCount + 1)
	d.emitOf(id, conversation.TaskStatusChanged{Trigger: ids[0], New: conversation.TaskQueued, Messages: ids})
	d.noteRow(d.state.Task(id), nil)
}

// complete is rule 2.9: the task has nothing more to do, and ends; or the model is
// asked once more, because it has said nothing (empty_answer=retry).
// Rules 2.9, 3.3, 3.4, 3.5.
func (d *decision) complete(t *state.Task, limited bool) {
	texts, silent := d.pending.take(t)
	open := t.ReadUnresolved()
	empty := len(texts) == 0 && !silent && t.LastPart == nil && open
	if empty && d.policy.EmptyAnswer == policy.EmptyRetry && t.EmptyAnswers <= maxEmptyRetries && !limited {
		d.startStep(t, false)
		return
	}
	switch {
	case len(texts) > 0:
		for _, p := range texts[:len(texts)-1] {
			d.showText(t, p)
		}
		last := texts[len(texts)-1]
		part := d.state.NextPart(t, last.text, t.ReplyTarget(), last.draft)
		d.emit(t, conversation.Response{Part: part})
		d.answered(t, part.InReplyTo, part.Index)
		d.answered(t, t.Trigger, part.Index)
		d.answeredByWords(t, texts, part.Index)
	case t.LastPart != nil:
		part := *t.LastPart
		d.emit(t, conversation.Response{Part: part, Promoted: true})
		if part.InReplyTo == "" || part.InReplyTo == t.Trigger {
			d.answered(t, t.Trigger, part.Index)
		}
	case empty && d.policy.EmptyAnswer != policy.EmptySilent:
		d.emit(t, conversation.Response{Part: d.state.NextPart(t, d.policy.Texts.Empty, "", ""), ResponseKind: conversation.ResponseEmpty})
	}
	rest := conversation.ResolvedUnanswered
	if silent {
		rest = conversation.ResolvedDismissed
	}
	d.finish(t, rest)
}

// maxEmptyRetries is the number of times that empty_answer=retry asks again (docs/POLICIES.md).
const maxEmptyRetries = 3

// completeLimited ends a task at its step limit, after the wrap-up.
// Rules 7.2, 8.4.
func (d *decision) completeLimited(t *state.Task, texts []pendingText) {
	if len(texts) == 0 {
		texts = []pendingText{{text: d.policy.Texts.Limit}}
	}
	for _, p := range texts[:len(texts)-1] {
		d.emit(t, conversation.PartialResponse{Part: d.state.NextPart(t, p.text, "", p.draft)})
	}
	last := texts[len(texts)-1]
	d.emit(t, conversation.Response{Part: d.state.NextPart(t, last.text, "", last.draft), ResponseKind: conversation.ResponseLimit})
	d.finish(t, conversation.ResolvedUnanswered)
}

// finish ends a task COMPLETE: what it has read ends with it, what it has not
// read starts the next one.
// Rule 8.2.
func (d *decision) finish(t *state.Task, rest conversation.Resolution) {
	sub := d.state.Key.Session.Depth() > 0
	for _, m := range slices.Clone(t.Messages) {
		if m.Read != 0 || sub {
			d.resolve(t, m.ID, rest, nil, "")
		}
	}
	d.requeue(t)
	d.setStatus(t, conversation.TaskComplete, "", nil)
	if sub {
		d.report()
	}
}

// resolve says what became of a message, once: the first word counts.
// Rule 8.1.
func (d *decision) resolve(t *state.Task, id conversation.MessageID, how conversation.Resolution, part *conversation.PartIndex, q conversation.QuestionID) {
	if t.Message(id) == nil {
		return
	}
	d.emit(t, conversation.MessageResolved{Message: id, How: how, Part: part, Question: q})
}

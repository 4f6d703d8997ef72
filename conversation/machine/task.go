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
		Key: d.state.Key, Task: t.ID(), Status: t.Status, Agent: d.state.Agent, Owner: d.state.Owner,
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
	p := d.pending.take(t)
	empty := len(p.texts) == 0 && !p.silent && t.LastPart == nil && t.ReadUnresolved()
	if empty && d.policy.EmptyAnswer == policy.EmptyRetry && t.EmptyAnswers <= maxEmptyRetries && !limited {
		d.startStep(t, false)
		return
	}
	switch {
	case len(p.texts) > 0:
		d.showTexts(t, p, final)
	case t.LastPart != nil:
		d.emit(t, conversation.Response{Part: *t.LastPart, Promoted: true})
	case empty && d.policy.EmptyAnswer != policy.EmptySilent:
		d.emit(t, conversation.Response{Part: d.state.NextPart(t, d.policy.Texts.Empty, "", ""), ResponseKind: conversation.ResponseEmpty})
	}
	rest := conversation.ResolvedUnanswered
	if p.silent {
		rest = conversation.ResolvedDismissed
	}
	d.finish(t, rest)
}

// maxEmptyRetries is the number of times that empty_answer=retry asks again (docs/POLICIES.md).
const maxEmptyRetries = 3

// completeLimited ends a task at its step limit, after the wrap-up: with the text of
// that, which may answer messages as any other, or with a notice, which answers nothing.
// Rules 7.2, 8.4.
func (d *decision) completeLimited(t *state.Task, texts []pendingText) {
	limit := func(part conversation.Part) conversation.EventBody {
		return conversation.Response{Part: part, ResponseKind: conversation.ResponseLimit}
	}
	if len(texts) == 0 {
		d.emit(t, limit(d.state.NextPart(t, d.policy.Texts.Limit, "", "")))
	} else {
		d.pending = pending{task: t, texts: texts}
		d.obligations().try(t, nothing)
		p := d.pending.take(t)
		if len(p.texts) == 0 { // it repeats what was said, and is the task's response all the same
			p.texts = texts
		}
		d.showTexts(t, p, limit)
	}
	d.finish(t, conversation.ResolvedUnanswered)
}

// finish ends a task COMPLETE: what it has read ends with it, what it has not
// read starts the next one.
// Rule 8.2.
func (d *decision) finish(t *state.Task, rest conversation.Resolution) {
	sub := d.state.Key.Session.Depth() > 0
	for _, m := range slices.Clone(t.Messages) {
		if m.Read != 0 || sub {
			d.resolve(t, m.ID, rest, "")
		}
	}
	d.requeue(t)
	d.setStatus(t, conversation.TaskComplete, "", nil)
	if sub {
		d.report()
	}
}

// resolve says what became of a message that was not answered, once: the first word
// counts.
// Rule 8.1.
func (d *decision) resolve(t *state.Task, id conversation.MessageID, how conversation.Resolution, q conversation.QuestionID) {
	if t.Message(id) == nil {
		return
	}
	d.emit(t, conversation.MessageResolved{Message: id, How: how, Question: q})
}

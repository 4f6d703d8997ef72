package machine

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// The settle rule: docs/MACHINE.md, section 2. After each command it looks at
// every task, line by line, until no line changes anything any more.

// progress is the outcome of a line of the settle rule.
type progress bool

const (
	settled progress = false // nothing to do for this task until the next command
	again   progress = true  // something has changed: the rule starts from its first line
)

// A session that never settles would take its whole node with it: events without
// end. The longest way to rest that rules take is a few rounds for each task.
const (
	settleRounds        = 10 // in any case
	settleRoundsPerTask = 4
)

// settle brings the session to rest after a command. It ends because each round
// closes a question, opens a step, starts, parks or ends a task, and no round
// undoes what another did. Rules that break this are a mistake in the program:
// settle panics, and the shell loses one activation instead of the node.
func (d *decision) settle() {
	if !d.Exists() {
		return
	}
	d.repeat(d.settleOnce)
	if t := d.runnable(); t != nil && d.state.Running() == nil && !d.slot {
		d.do(conversation.WantSlot{Task: t.ID()})
	}
}

// repeat reads a rule again until it is settled, within the bound.
func (d *decision) repeat(rule func() progress) {
	bound := settleRounds + settleRoundsPerTask*len(d.state.Tasks)
	for rounds := 0; rule() == again; rounds++ {
		if rounds >= bound {
			panic(fmt.Sprintf("machine: session %s does not settle: stopped after %d rounds", d.state.Key, rounds))
		}
	}
}

// settleOnce applies the rule to the first task that it changes.
// Rules 7.4, 9.1.
func (d *decision) settleOnce() progress {
	for _, t := range state.Active(&d.state) {
		if d.settleTask(t) == again {
			return again
		}
	}
	if d.state.Running() == nil {
		if t := d.runnable(); t != nil && (d.slot || d.state.Agent.Outside()) {
			d.setStatus(t, conversation.TaskRunning, "", nil)
			return again
		}
	}
	return settled
}

// settleTask applies the rule to one task, whatever its status.
func (d *decision) settleTask(t *state.Task) progress {
	switch {
	case t.Cancelling != nil:
		if t.Step == nil && len(t.Calls) == 0 {
			d.end(t)
			return again
		}
	case t.Status == conversation.TaskRunning && !d.state.Agent.Outside():
		return d.advance(t)
	case t.Status == conversation.TaskAwaiting && !t.Awaits():
		d.setStatus(t, conversation.TaskQueued, "", nil)
		return again
	}
	return settled
}

// runnable is the QUEUED task that starts next, if its time has come.
// Rule 2.11.
func (d *decision) runnable() *state.Task { return d.state.RunnableAt(d.now) }

// advance applies the settle rule to a RUNNING task.
// Rule 2.14.
func (d *decision) advance(t *state.Task) progress {
	if t.Step != nil { // Rule 2.1.
		return settled
	}
	if t.Blocked() { // Rule 2.2.
		d.showPending(t)
		d.leaveUnread(t)
		return d.park(t)
	}
	if t.ToolOpen() { // Rule 2.3.
		return d.showPending(t)
	}
	limited, news := t.Limited(d.maxSteps()), t.News()
	if t.Delegating(t.LastStep) && !news { // Rule 2.4.
		return d.waitForDelegations(t)
	}
	if t.UnseenResults || news { // Rule 2.5.
		if !t.UnseenResults && !t.UnseenInput && !t.UnseenAnswer && !t.Delegating(0) && !t.Asking() {
			d.obligations().try(t, nothing) // a draft: nothing but unread messages keeps it from rule 2.8
		}
		d.showPending(t)
		switch {
		case t.Wrapping(d.maxSteps()):
			d.stopDelegations(t)
			return settled
		case limited:
			d.questions().closeQuestions(t, conversation.QuestionCancelled)
		}
		d.startStep(t, limited)
		return again
	}
	if t.Delegating(0) { // Rule 2.6.
		return d.waitForDelegations(t)
	}
	if t.Asking() { // Rule 2.7.
		if !limited && d.questions().clarify(t) == nudged {
			return again
		}
		d.obligations().try(t, func(m *state.Message) bool { return !t.MayAnswer(m) }) // it was called no answer
		d.obligations().tryReply(t)
		d.showPending(t)
		return d.park(t)
	}
	if d.questions().askedInText(t) == again {
		return again
	}
	d.obligations().try(t, nothing)
	if !limited && d.obligations().nudge(t) == nudged { // Rule 2.8.
		return again
	}
	d.complete(t, limited) // Rule 2.9.
	return again
}

// park makes a task wait for answers, unless a reply was kept for it that is one.
func (d *decision) park(t *state.Task) progress {
	if d.questions().meetKept(t) == settled {
		d.setStatus(t, conversation.TaskAwaiting, "", nil)
	}
	return again
}

// leaveUnread makes leftovers of what has joined a task that parks: nothing unread
// waits behind a card that nobody may ever answer. A sub-session has one task: there
// it waits for the step that the answer opens.
// Rule 4.10.
func (d *decision) leaveUnread(t *state.Task) {
	if d.state.Key.Session.Depth() == 0 {
		d.leave(t, t.UnreadMessages())
	}
}

// waitForDelegations is lines 4 and 6: the task waits, and is AWAITING while each
// of its running delegations has asked something.
// Rule 2.4a.
func (d *decision) waitForDelegations(t *state.Task) progress {
	shown := d.showPending(t)
	if t.DelegationsAsk() {
		return d.park(t)
	}
	return shown
}

// Rule 7.2.
func (d *decision) stopDelegations(t *state.Task) {
	for _, c := range t.Calls {
		d.do(conversation.StopCall{Call: c.ID})
	}
}

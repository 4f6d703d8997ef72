package machine

import (
	"cmp"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/outside"
	"parley/conversation/machine/internal/state"
)

// Sessions that runtimes outside of this server answer: agents that are not ours
// deliver what they say. docs/MACHINE.md, section 9; requirements M, notes.

// decideAddPart takes a part of a message of the session, or one that is kept apart.
// Rules 9.11, 9.12.
func (d outsiders) decideAddPart(c conversation.AddPart) *conversation.Error {
	if outside.Own(&d.state, c.Source) {
		return d.addOwn(c)
	}
	if conversation.IsBlank(c.Text) {
		d.out.Receipt.Ignored = true
		return nil
	}
	if done, err := d.deliveredBefore(c); done || err != nil {
		return err
	}
	part, refusal := outside.Apart(&d.state, c)
	if refusal != nil {
		return refusal
	}
	var body conversation.EventBody = conversation.PartialResponse{Part: part}
	if c.Final {
		body = conversation.Response{Part: part}
	}
	e := d.emit(nil, body)
	d.out.Receipt = conversation.Receipt{Message: part.Message, Seq: e.Seq, PartIndex: part.Index}
	return nil
}

// addOwn takes a part of a message's task, or the word that it was the last one. A
// caller of before parts had an index says neither: its part is the only one.
// Rules 9.11a, 9.11b, M-15, M-16.
func (d outsiders) addOwn(c conversation.AddPart) *conversation.Error {
	final, said := c.Final || !c.Indexed, !conversation.IsBlank(c.Text)
	if !said && !c.Final {
		d.out.Receipt.Ignored = true
		return nil
	}
	known, err := d.deliveredBefore(c)
	if err != nil {
		return err
	}
	known = known && said
	t, refusal := outside.Working(&d.state, conversation.MessageID(c.Source))
	switch {
	case known && (refusal != nil || !final):
		return nil // what is stored is answered first
	case refusal != nil:
		return refusal
	}
	if refusal := outside.Counts(t.Lease, c.Generation); refusal != nil {
		return refusal
	}
	if said && !known && c.Index != t.NextPart {
		return outside.Gap(c, t.NextPart)
	}
	switch {
	case !final:
		d.say(t, c.Text, false)
		if t.Lease.Held() {
			d.prolong(t, conversation.RuntimeAlive)
		}
	case said && !known:
		d.say(t, c.Text, true)
		d.completeOutside(t)
	default:
		receipt := d.out.Receipt
		d.promote(t)
		if known {
			d.out.Receipt = receipt
		}
		d.completeOutside(t)
	}
	return nil
}

// say shows a part of a task.
func (d outsiders) say(t *state.Task, text string, final bool) {
	part := d.state.NextPart(t, text, "", "")
	var body conversation.EventBody = conversation.PartialResponse{Part: part}
	if final {
		part.InReplyTo = t.Trigger
		body = conversation.Response{Part: part}
	}
	e := d.emit(t, body)
	d.out.Receipt = conversation.Receipt{Message: part.Message, Seq: e.Seq, PartIndex: part.Index, Task: t.ID()}
}

// promote makes the last part of a task its response.
// Rule 3.3.
func (d outsiders) promote(t *state.Task) {
	d.out.Receipt = conversation.Receipt{Task: t.ID()}
	if part := t.LastPart; part != nil {
		e := d.emit(t, conversation.Response{Part: *part, Promoted: true})
		d.out.Receipt.Message, d.out.Receipt.Seq, d.out.Receipt.PartIndex, d.out.Receipt.Duplicate = part.Message, e.Seq, part.Index, true
	}
}

// completeOutside ends a task on its runtime's word. What the task has shown answers
// its message; if that is nothing, there was nothing to say.
// Rule 9.11a.
func (d outsiders) completeOutside(t *state.Task) {
	resolved := conversation.MessageResolved{Message: t.Trigger, How: conversation.ResolvedDismissed}
	if t.LastPart != nil {
		index := t.LastPart.Index
		resolved.How, resolved.Evidence, resolved.Part = conversation.ResolvedAnswered, conversation.EvidenceNamed, &index
	}
	d.emit(t, resolved)
	d.finish(t, conversation.ResolvedUnanswered)
	d.out.Receipt.NewStatus = conversation.TaskComplete
}

// decideHandOut gives the message of the RUNNING task to a runtime.
// Rule 9.11c.
func (d outsiders) decideHandOut(c conversation.HandOut) *conversation.Error {
	if c.Runtime == "" {
		return conversation.Errorf(conversation.BadRequest, "runtime must name the process that claims")
	}
	t := d.state.Running()
	if t == nil || t.Cancelling != nil || !d.state.Agent.Outside() {
		return conversation.Errorf(conversation.Conflict, "nothing waits for a runtime in this session")
	}
	out, refusal := outside.Give(t.Lease, c.Runtime, d.now, d.policy.OutsideLease)
	if refusal != nil {
		return refusal
	}
	m := t.Message(t.Trigger)
	if out.Store {
		d.emit(t, conversation.RuntimeStatus{
			Message: t.Trigger, Status: conversation.RuntimeHandedOut, Generation: out.Generation, Runtime: c.Runtime, Until: out.Until,
		})
	}
	d.out.Receipt = conversation.Receipt{
		Message: t.Trigger, Task: t.ID(), Author: m.Author, AuthorName: m.AuthorName, Said: max(m.Seq, m.Edited), NextPart: t.NextPart, Generation: out.Generation, Until: out.Until,
	}
	return nil
}

// decideRuntimeSays takes the word of a runtime about a message that it was handed.
// Rules 9.11d, 9.11e, 9.11f, M-20.
func (d outsiders) decideRuntimeSays(c conversation.RuntimeSays) *conversation.Error {
	if !outside.Own(&d.state, string(c.Message)) {
		return conversation.Errorf(conversation.NotFound, "there is no message %s that waits for a runtime in this session", c.Message)
	}
	t, refusal := outside.Working(&d.state, c.Message)
	if refusal != nil {
		return refusal
	}
	again := c.Status == conversation.RuntimeFailed && t.Lease != nil && t.Lease.Ended && t.Lease.Generation == c.Generation
	if !again {
		if refusal := outside.Counts(t.Lease, c.Generation); refusal != nil {
			return refusal
		}
		if !t.Lease.Held() { // without a lease there is nothing to say that about
			return conversation.Errorf(conversation.Conflict, "no runtime has the message; claim it first")
		}
	}
	d.out.Receipt = conversation.Receipt{Message: c.Message, Task: t.ID(), Generation: t.Lease.Generation}
	switch c.Status {
	case conversation.RuntimeRead, conversation.RuntimeAlive:
		d.out.Receipt.Until = d.prolong(t, c.Status)
	case conversation.RuntimeFailed:
		if !again {
			d.giveUp(t, c.Error, c.Permanent)
		}
	default:
		return conversation.Errorf(conversation.BadRequest, "a runtime says read, alive or failed")
	}
	return nil
}

// prolong takes a sign of life. It gives the stored end of the lease.
// Rule 9.11d.
func (d outsiders) prolong(t *state.Task, said conversation.RuntimeState) time.Time {
	status, store := outside.Alive(t.Lease, t.Trigger, said, d.now, d.policy.OutsideLease)
	if store {
		d.emit(t, status)
	}
	return status.Until
}

// leaseRanOut frees a task whose runtime has given no sign of life for too long.
// Rule 9.11f.
func (d outsiders) leaseRanOut(t *state.Task) {
	if outside.RanOut(t.Lease, d.now) {
		d.giveUp(t, conversation.LeaseRanOut, false)
	}
}

// giveUp ends a lease without an answer. The task is handed out again, later each
// time; after the last hand-out, or if none would help, it ends in ERROR.
// Rule 9.11f.
func (d outsiders) giveUp(t *state.Task, why string, permanent bool) {
	last := permanent || int(t.Lease.Generation) >= d.policy.MaxAttempts
	failed := outside.Failed(t.Lease, t.Trigger, why, permanent)
	if wait := d.policy.Backoff(int(failed.Generation)-1, outside.Jitter(t.Trigger, failed.Generation), 0); wait > 0 && !last {
		failed.NotBefore = d.now.Add(wait)
	}
	d.emit(t, failed)
	if last {
		failure := &conversation.Failure{Code: conversation.Unavailable, Message: cmp.Or(why, "the runtime failed")}
		d.cancelTask(t, conversation.ByError, "no outside runtime has answered", failure, false)
	}
}

// deliveredBefore answers a part that was delivered before: the store knows all
// that have a source, and the session the last plain ones. A source's part
// with an index never changes, and one that says something else now is told so; a
// client that uses its id again for other text has made a mistake.
// Rule 9.11b.
func (d outsiders) deliveredBefore(c conversation.AddPart) (bool, *conversation.Error) {
	dup := c.Duplicate
	if c.Source != "" {
		if dup == nil {
			return false, nil
		}
		d.out.Receipt = conversation.Receipt{Message: dup.Message, Seq: dup.Seq, PartIndex: c.Index, Duplicate: true, OtherText: !dup.SameText}
		return true, nil
	}
	dup, n := d.state.Repeated(c.Author, c.ClientMsgID, c.DedupText(), dup)
	if c.ClientMsgID == "" || dup == nil {
		return false, nil
	}
	if n > 0 {
		dup.Message = d.state.PartID(n)
	}
	if !dup.SameText {
		return false, conversation.Errorf(conversation.Conflict, "the id %q was used for something else", c.ClientMsgID)
	}
	d.out.Receipt = conversation.Receipt{Message: dup.Message, Seq: dup.Seq, Duplicate: true}
	return true, nil
}

package machine

import (
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/effects"
	"parley/conversation/machine/internal/intake"
	"parley/conversation/machine/internal/state"
)

// Decide takes a command and says what happens because of it: conversation.Decided
// tells what the caller owes it. Each event is applied as it is decided, by Apply,
// which alone changes the state, so the session has moved on when Decide returns.
func (s *Session) Decide(in conversation.Inputs, c conversation.Command) conversation.Decided {
	out, _ := s.decide(in, c)
	return out
}

// decide also gives the effects in the order in which they were decided.
func (s *Session) decide(in conversation.Inputs, c conversation.Command) (conversation.Decided, []conversation.Effect) {
	s.clock.hear(conversation.Stamp(in.At))
	d := decision{
		Session: s, now: s.clock.heard, slot: in.Slot || s.state.Key.Session.Depth() > 0, asking: in.Asking, shown: in.Shown,
	}
	err := d.command(intake.Sanitize(c))
	if err == nil {
		d.settle()
	}
	if err == nil && s.drained {
		d.drain() // a late result has opened another step
	}
	if err != nil {
		d.out = conversation.Decided{Err: err}
	} else if d.out.Receipt.Seq == 0 {
		d.out.Receipt.Seq = s.state.Head
	}
	d.out.Keys = conversation.Keys(d.out.Events)
	d.out.Release = effects.Releasing(d.effects)
	_, recovered := c.(conversation.Recovered)
	s.hold(d.effects, recovered)
	d.out.Summary, d.out.Standing = s.state.Summary(), s.Standing()
	return d.out, d.effects
}

// decision is one call of Decide: what it was given, and what it brings forth.
// The rules are its methods; those of a family of rules are methods of a type of
// that family, which holds nothing but the decision.
type decision struct {
	*Session
	now     time.Time // the clock, as the command brought it
	slot    bool      // a task may become RUNNING
	asking  conversation.Attempt
	shown   []conversation.DraftView // of the open step
	out     conversation.Decided
	effects []conversation.Effect // in their order, releasing ones too
	pending pending
	// What the texts of the answer at hand are shown as answers to, if it does not
	// say so: fixed before anything that it brings is resolved.
	addressee conversation.MessageID
}

type (
	inbox       struct{ *decision } // messages: accepted, edited, moved, taken back
	questions   struct{ *decision } // asked, answered, closed
	calls       struct{ *decision } // tools and delegations: planned, started, ended
	obligations struct{ *decision } // messages that were read: answered, nudged for
	outsiders   struct{ *decision } // tasks that outside runtimes work on
	ends        struct{ *decision } // tasks that end early: stopped, and what is kept of them
)

func (d *decision) inbox() inbox             { return inbox{d} }
func (d *decision) questions() questions     { return questions{d} }
func (d *decision) calls() calls             { return calls{d} }
func (d *decision) obligations() obligations { return obligations{d} }
func (d *decision) outsiders() outsiders     { return outsiders{d} }
func (d *decision) ends() ends               { return ends{d} }

// command finds the rule for a command. An error refuses it: nothing was decided.
func (d *decision) command(c conversation.Command) *conversation.Error {
	switch c := c.(type) {
	case conversation.Create:
		return d.decideCreate(c)
	case conversation.Tell:
		return d.calls().decideTell(c)
	case conversation.Recovered, conversation.Tick, conversation.SlotGranted, conversation.Drain, conversation.ModelAnswered, conversation.ModelFailed, conversation.ModelStopped, conversation.Triaged, conversation.ToolDone, conversation.ToolAsks, conversation.ToolAskEnds,
		conversation.DelegationAsked, conversation.DelegationQuestions, conversation.DelegationQuestionClosed, conversation.DelegationDone, conversation.Compacted:
		if d.Exists() {
			d.decideInner(c)
		}
		return nil
	case conversation.Cancel:
		if !d.Exists() {
			return d.absent()
		}
		return d.ends().decideCancel(c)
	}
	if !d.Exists() {
		return d.absent()
	}
	if d.state.Key.Session.Depth() > 0 && !fromParent(c) {
		return conversation.Errorf(conversation.Forbidden, "a delegation's session can only be read")
	}
	switch c := c.(type) {
	case conversation.Say:
		return d.inbox().decideSay(c)
	case conversation.Answer:
		return d.questions().decideAnswer(c)
	case conversation.Reply:
		return d.questions().decideReply(c)
	case conversation.Edit:
		return d.inbox().decideEdit(c)
	case conversation.Withdraw:
		return d.inbox().decideWithdraw(c)
	case conversation.Move:
		return d.inbox().decideMove(c)
	case conversation.Update:
		return d.decideUpdate(c)
	case conversation.Close:
		return d.decideClose(c)
	case conversation.Seen:
		return d.decideSeen(c)
	case conversation.Mark:
		d.out.Cursors = append(d.out.Cursors, conversation.Cursor{User: c.User, Marking: c.Marking})
		return nil
	case conversation.AddPart:
		return d.outsiders().decideAddPart(c)
	case conversation.HandOut:
		return d.outsiders().decideHandOut(c)
	case conversation.RuntimeSays:
		return d.outsiders().decideRuntimeSays(c)
	case conversation.Clear:
		return d.decideClear(c)
	default:
		return conversation.Errorf(conversation.Internal, "the command %T is not known", c)
	}
}

// decideInner takes the commands that come from the shell itself: no client waits
// for their answer, and one that is out of date changes nothing.
func (d *decision) decideInner(c conversation.Command) {
	switch c := c.(type) {
	case conversation.Recovered:
		d.recover(c)
	case conversation.Tick:
		d.tick()
	case conversation.Drain:
		d.drained = true
	case conversation.ModelAnswered:
		d.modelAnswered(c)
	case conversation.ModelFailed:
		d.modelFailed(c)
	case conversation.ToolDone:
		d.calls().toolDone(c)
	case conversation.ToolAsks:
		d.questions().toolAsks(c)
	case conversation.ToolAskEnds:
		d.questions().toolAskEnds(c)
	case conversation.DelegationAsked:
		d.calls().delegationAsked(c)
	case conversation.DelegationQuestions:
		d.calls().delegationQuestions(c)
	case conversation.DelegationQuestionClosed:
		d.calls().delegationQuestionClosed(c)
	case conversation.DelegationDone:
		d.calls().delegationDone(c)
	case conversation.Compacted:
		d.compacted(c)
	case conversation.ModelStopped:
		d.ends().modelStopped(c)
	case conversation.Triaged:
		d.inbox().triaged(c)
	case conversation.SlotGranted:
		// Inputs brings the slot; settle uses it.
	}
}

// fromParent is true for what a parent session may tell a sub-session.
// Rule 5.9.
func fromParent(c conversation.Command) bool {
	switch c := c.(type) {
	case conversation.Say:
		return c.Via == conversation.ViaDelegation
	case conversation.Answer:
		return c.Via == conversation.ViaDelegation
	case conversation.Seen:
		return true
	default:
		return false
	}
}

func (s *Session) absent() *conversation.Error {
	return conversation.Errorf(conversation.NotFound, "there is no such session")
}

// emit decides an event: it is applied at once and goes into the commit.
func (d *decision) emit(t *state.Task, body conversation.EventBody) conversation.Event {
	if t == nil {
		return d.emitOf("", body)
	}
	return d.emitOf(t.ID(), body)
}

// emitOf decides an event of a task that may be born by it.
func (d *decision) emitOf(task conversation.TaskID, body conversation.EventBody) conversation.Event {
	e := conversation.Event{Seq: d.state.Head + 1, At: d.at(), Task: task, Body: intake.Normalize(body)}
	if err := d.Apply(e); err != nil {
		panic("machine: decided an event that does not apply: " + err.Error())
	}
	if d.out.Events == nil {
		d.out.Events = make([]conversation.Event, 0, 4) // as many as most decisions have
	}
	d.out.Events = append(d.out.Events, e)
	return e
}

// at is the time of the events decided now. A clock may be set back; a session's
// time does not go back. A later time is computed from the clock itself: else a
// clock that was an hour ahead would keep each retry waiting for an hour.
// Rule 1.8.
func (d *decision) at() time.Time {
	if d.now.Before(d.state.Last) {
		return d.state.Last
	}
	return d.now
}

// do adds an effect.
func (d *decision) do(e conversation.Effect) { d.effects = append(d.effects, e) }

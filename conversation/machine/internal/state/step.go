package state

import (
	"slices"

	"parley/conversation"
)

// Rules 1.1, 7.1.
func (st *State) applyStepStarted(e conversation.Event, t *Task, b conversation.StepStarted) {
	st.Step = max(st.Step, b.Step)
	if t == nil {
		return
	}
	if b.Attempt == 1 {
		t.Step = &Step{N: b.Step, Attempt: 1, Seq: e.Seq, Read: b.Read, Agent: b.Agent, WrapUp: b.WrapUp, NotBefore: b.NotBefore, Form: t.Form}
		t.Form = conversation.NudgePlain
		t.NudgeFailed = t.NudgeFailed && len(b.Read) == 0
		if m := t.Message(t.Alone); m != nil && len(b.Read) > 0 { // it is asked for once more
			m.Nudged--
			t.Alone, t.Retold = "", nil
		} else if m != nil {
			t.Step.Form = conversation.NudgeAlone // after a tool, too
		}
		t.forgetUnnamed()
		if t.LastPart == nil || !t.LastPart.Cut {
			t.Pieces = nil
		}
		t.About, t.NextOf = t.NextOf, ""
		t.Steps++
		if t.StepsSince++; len(b.Read) > 0 || t.UnseenAnswer || t.Allowed {
			t.StepsSince, t.EmptyAnswers = 1, 0
		}
		t.LastStep, t.UnseenResults, t.UnseenInput, t.UnseenAnswer, t.Allowed = b.Step, false, false, false, false
		next := 0 // they are read in their order
		for _, m := range t.Messages {
			inOrder := next < len(b.Read) && b.Read[next] == m.ID
			if inOrder {
				next++
			}
			if inOrder || slices.Contains(b.Read[next:], m.ID) {
				m.Read, m.ReadBy, m.Files = e.Seq, b.Step, nil
				t.Numbered++
				m.Number = t.Numbered
			}
		}
		t.readFirst()
		return
	}
	open := t.Step
	if open == nil {
		return
	}
	open.Attempt, open.NotBefore = b.Attempt, b.NotBefore
	// A drain parks the step; the next start of it, after the restart, carries
	// the same cause and is the one that runs.
	open.Parked = b.Cause == conversation.CauseDrain && !open.Parked
	switch b.Cause {
	case conversation.CauseError:
		open.Errors++
	case conversation.CauseInterrupted:
		open.Interrupts++
	case conversation.CauseMoved:
		open.Moves++
	}
}

// Again is the start of the step's next attempt.
// Rule 1.2.
func (st *Step) Again(cause conversation.Cause) conversation.StepStarted {
	return conversation.StepStarted{Step: st.N, Attempt: st.Attempt + 1, Agent: st.Agent, Read: st.Read, Cause: cause, WrapUp: st.WrapUp}
}

// readFirst puts the messages that were read before those that wait.
func (t *Task) readFirst() {
	slices.SortStableFunc(t.Messages, func(a, b *Message) int { return boolOrder(a.Read == 0) - boolOrder(b.Read == 0) })
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// applyStepFinished closes the step. The results that its own answer brings at
// once ("delivered", "question sent, continuing") are unseen; what a
// coverMessage says is not.
// Rule 2.12.
func (st *State) applyStepFinished(t *Task, b conversation.StepFinished) {
	if t == nil {
		return
	}
	form := conversation.NudgePlain
	if t.Step != nil {
		form = t.Step.Form
		noteHabit(st, t.Step, b)
	}
	t.Step = nil
	if form != conversation.NudgePlain && form != conversation.NudgeJudged && b.Outcome == conversation.StepError {
		t.NudgeFailed = true // the agent's own model can still be asked where another one has failed
	}
	t.Interrupted = b.Outcome == conversation.StepUnknown && t.Cancelling == nil
	t.noteSaying(b)
	if b.Stop != conversation.StopLength {
		t.Cuts = 0
	}
	t.notePieces(b)
	empty := b.Outcome == conversation.StepOK
	for _, item := range b.Items {
		if item.Kind != conversation.ItemCall {
			empty = empty && conversation.IsBlank(item.Text)
			continue
		}
		empty = false
		if item.Tool != conversation.ToolCover && !Quiet(form, item) && slices.ContainsFunc(b.Results, func(r conversation.CallResult) bool { return r.ID == item.ID }) {
			t.UnseenResults = true
		}
	}
	if empty {
		t.EmptyAnswers++
	}
}

// StepOf finds the task whose open step a model call speaks of; an answer for
// another step or attempt is stale.
// Rule 1.10.
func (st *State) StepOf(n conversation.StepNumber, attempt int) *Task {
	for _, t := range Active(st) {
		if t.Step != nil && t.Step.N == n && t.Step.Attempt == attempt && !t.Step.Parked {
			return t
		}
	}
	return nil
}

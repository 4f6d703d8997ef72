package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/machine/internal/receipts"
)

// Apply changes the state by an event.
func (st *State) Apply(e conversation.Event) error {
	if e.Seq != st.Head+1 {
		return fmt.Errorf("event %d of %s follows %d", e.Seq, st.Key, st.Head)
	}

	t := st.Task(e.Task)
	switch b := e.Body.(type) {
	case conversation.SessionCreated:
		st.Title, st.Agent, st.Owner, st.Access, st.Policy, st.Lifted = b.Title, b.Agent, b.Owner, b.Access, b.Policy, b.Lifted
		st.Created, st.Activity, st.FreeSince = e.At, e.At, e.At
	case conversation.SessionUpdated:
		st.applyUpdated(b)
	case conversation.SessionClosed:
		st.Closed = true
	case conversation.MessageAccepted:
		st.applyAccepted(e, t, b)
	case conversation.MessageEdited:
		st.openingEdited(b.Message, b.Text)
		if _, m := st.Message(b.Message); m != nil {
			m.Words, m.Edited = receipts.Of(b.Text, receipts.MessageWords), e.Seq
			if m.Text = b.Text; !m.Deferred {
				m.Text = conversation.Excerpt(b.Text, RememberedText)
			}
		}
	case conversation.MessageWithdrawn:
		st.applyWithdrawn(t, b)
	case conversation.MessageMoved:
		st.applyMoved(b)
	case conversation.MessageResolved:
		if mt, _ := st.Message(b.Message); mt != nil {
			applyResolved(st, mt, b)
		}
		if st.Agent.Outside() {
			if st.EndedMessages == nil {
				st.EndedMessages = &endedMessages{}
			}
			st.EndedMessages.note(b)
		}
	case conversation.TaskStatusChanged:
		if t != nil && b.New.Ended() {
			st.taskEnds(t, e.Seq)
		}
		st.applyStatus(e, t, b)
	case conversation.TaskCancelling:
		st.applyCancelling(e, t, b)
	case conversation.StepStarted:
		if b.Attempt == 1 {
			st.Voices.Step(uint64(e.Seq))
		}
		if t, m := st.first(b); m != nil {
			st.Origin = &origin{Accepted: m.Seq, Read: e.Seq, Task: t.N}
		}
		st.applyStepStarted(e, t, b)
	case conversation.StepFinished:
		st.applyStepFinished(t, b)
	case conversation.PartialResponse:
		st.applyPart(e, t, b.Part, false)
	case conversation.Response:
		st.applyPart(e, t, b.Part, b.Promoted)
		if st.Key.Session.Depth() > 0 {
			st.Final = &Final{Response: e.Seq}
		}
	case conversation.Asked:
		st.applyAsked(e, t, b)
	case conversation.QuestionAnswered:
		st.applyQuestionAnswered(e, b)
	case conversation.QuestionClosed:
		st.applyQuestionClosed(e, b)
	case conversation.ToolStarted:
		st.applyToolStarted(e, t, b)
	case conversation.ToolFinished:
		st.applyCallEnded(t, b.Call)
	case conversation.DelegationStarted:
		st.applyDelegationStarted(e, t, b)
	case conversation.DelegationFinished:
		st.applyCallEnded(t, b.Delegation)
	case conversation.CoverageNudge:
		if t != nil {
			t.applyNudge(b)
		}
	case conversation.ContextCompacted:
		st.applyCompacted(b)
	case conversation.ContextCleared:
		st.applyCleared(e.Seq)
	case conversation.RuntimeStatus:
		st.applyRuntimeStatus(e, t, b)
	default:
		return fmt.Errorf("event %d of %s: %w", e.Seq, st.Key, conversation.ErrTooNew)
	}
	born := t == nil && e.Task != ""
	if born {
		t = st.Task(e.Task)
	}
	noteQueue(st, e, t, born)
	if t != nil {
		t.Events = extend(t.Events, e.Seq)
	}
	st.Head, st.Last = e.Seq, e.At
	return nil
}

func (st *State) applyUpdated(b conversation.SessionUpdated) {
	st.Agent = cmp.Or(b.Agent, st.Agent)
	if b.Title != nil {
		st.Title = *b.Title
	}
	if b.Access != nil {
		st.Access = *b.Access
	}
	for user, role := range b.Members {
		if role == access.None {
			delete(st.Members, user)
			continue
		}
		if st.Members == nil {
			st.Members = make(map[conversation.UserID]access.Role)
		}
		st.Members[user] = role
	}
	if b.Policy == nil {
		return
	}
	st.Policy = st.Policy.With(b.Policy) // a new map: receipts and views may still hold the old one
	lifted := slices.Clone(b.Lifted)
	for _, key := range st.Lifted {
		if _, said := b.Policy[key]; !said {
			lifted = append(lifted, key)
		}
	}
	slices.Sort(lifted)
	st.Lifted = lifted
}

// WaitingSince is the time at which a runnable task began to wait for a slot alone.
// Rule 6.5.
func (st *State) WaitingSince(t *Task) time.Time {
	since := t.Updated
	for _, at := range []time.Time{st.FreeSince, t.NotBefore} {
		if at.After(since) {
			since = at
		}
	}
	return since
}

// Exists is false until the first event was applied.
func (st *State) Exists() bool { return st.Head > 0 }

// Role is what a user of the session's tenant is to it.
func (st *State) Role(user conversation.UserID) access.Role {
	return access.Of(user, st.Owner, st.Access == conversation.AccessTenant, st.Members)
}

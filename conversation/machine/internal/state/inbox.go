package state

import (
	"slices"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/machine/internal/receipts"
)

// RememberedText is the length of an unresolved message's text that the state keeps,
// in code points: enough for a question that it turns out to answer.
const RememberedText = 1000

// ExcerptLength is the length of the excerpts in lists and titles, in code points.
const ExcerptLength = 60

// Collecting is the QUEUED task that messages are collected in; nil if there is none.
// Rule 9.5.
func (st *State) Collecting() *Task {
	for _, t := range st.Tasks {
		if t.Status == conversation.TaskQueued && t.Collect && !t.Ran() && t.Cancelling == nil {
			return t
		}
	}
	return nil
}

// Busy is true while something runs or is about to: then inbox.mode=reject refuses.
// Rule 9.7.
func (st *State) Busy() bool {
	for _, t := range st.Tasks {
		if t.Status == conversation.TaskRunning || t.Status == conversation.TaskQueued {
			return true
		}
	}
	return false
}

func (st *State) applyAccepted(e conversation.Event, t *Task, b conversation.MessageAccepted) {

	n := conversation.Ordinal(string(b.Message), 'm')
	st.Messages, st.Activity = max(st.Messages, n), e.At
	if b.ClientMsgID != "" {
		st.remember(dedupEntry{Key: clientKey(b.Author, b.ClientMsgID), Text: TextKey(attached.Fingerprint(b.Text, b.Files)), Message: n, Seq: uint32(e.Seq)})
	}
	if b.Via != conversation.ViaDelegation { // there the parent speaks for all
		st.Voices.Say(uint64(e.Seq), string(b.Author))
	}
	switch b.Disposition {
	case conversation.Answered:
		return // resolved in the same commit
	case conversation.Started, conversation.Queued:
		if t == nil {
			t = st.newTask(e, b.Message)
			t.Steer, t.Collect, t.NotBefore = b.Steer, !b.NotBefore.IsZero(), b.NotBefore
			if b.Preempts { // also before an earlier interrupt that still waits
				t.Order = OrderFirst
				st.Tasks = slices.Insert(st.Tasks[:len(st.Tasks)-1:len(st.Tasks)-1], 0, t)
			}
		}
	}
	st.opens(n, b.Text, b.Files)
	if t != nil {
		m := &Message{
			ID: b.Message, Author: b.Author, Via: b.Via, Seq: e.Seq, At: e.At, Deferred: b.Deferred,
			Text: conversation.Excerpt(b.Text, RememberedText), Words: receipts.Of(b.Text, receipts.MessageWords), Files: b.Files,
		}
		if b.Deferred {
			m.Text = b.Text
		}
		if st.Agent.Outside() {
			m.AuthorName = b.AuthorName
		}
		t.Messages = append(t.Messages, m)
	}
}

// maxWithdrawn bounds how many withdrawn messages are remembered: as many as
// client ids are.
const maxWithdrawn = 256

func (st *State) applyWithdrawn(t *Task, b conversation.MessageWithdrawn) {

	st.Withdrawn = append(st.Withdrawn, conversation.Ordinal(string(b.Message), 'm'))
	st.openingWithdrawn(conversation.Ordinal(string(b.Message), 'm'))
	if extra := len(st.Withdrawn) - maxWithdrawn; extra > 0 {
		st.Withdrawn = append([]uint32(nil), st.Withdrawn[extra:]...)
	}
	if t != nil && b.NewTrigger != "" {
		t.Trigger = b.NewTrigger
	}
}

// RunnableFirst is the QUEUED task that goes first, whether its time has come or not.
func (st *State) RunnableFirst() *Task {
	var first *Task
	for _, t := range st.Tasks {
		if t.Status == conversation.TaskQueued && (first == nil || t.Order > first.Order) {
			first = t
		}
	}
	return first
}

// FirstUnread is the place of the first message that no step has read; the length of the list if there is none.
func (t *Task) FirstUnread() int {
	for i, m := range t.Messages {
		if m.Read == 0 {
			return i
		}
	}
	return len(t.Messages)
}

func (st *State) applyMoved(b conversation.MessageMoved) {
	t, m := st.Message(b.Message)
	if m == nil || b.Report != "" {
		return
	}
	bt, before := st.Message(b.Before)
	if b.Before == "" || bt == t {
		i := slices.Index(t.Messages, m)
		t.Messages = slices.Delete(slices.Clone(t.Messages), i, i+1)
		at := t.FirstUnread()
		if before != nil {
			at = slices.Index(t.Messages, before)
		}
		t.Messages = slices.Insert(t.Messages, at, m)
	}
	if t.Status != conversation.TaskQueued || bt == t {
		return
	}
	i := slices.Index(st.Tasks, t)
	st.Tasks = slices.Delete(slices.Clone(st.Tasks), i, i+1)
	at := 0
	if bt != nil {
		at, t.Order = slices.Index(st.Tasks, bt), bt.Order
	} else {
		for _, other := range st.Tasks {
			if other.Status == conversation.TaskQueued {
				t.Order = max(t.Order, other.Order)
			}
		}
	}
	st.Tasks = slices.Insert(st.Tasks, at, t)
}

// Moves is false when everything stands as wished already.
func Moves(st *State, t *Task, m *Message, before conversation.MessageID) bool {
	if before == "" {
		first := t.FirstUnread()
		return t.Messages[first] != m || t.Status == conversation.TaskQueued && st.RunnableFirst() != t
	}
	bt, b := st.Message(before)
	if bt == t {
		i := slices.Index(t.Messages, m)
		return i+1 >= len(t.Messages) || t.Messages[i+1] != b
	}
	i := slices.Index(st.Tasks, t)
	return t.Order != bt.Order || i+1 >= len(st.Tasks) || st.Tasks[i+1] != bt
}

// SteerTarget is the task that a steer message joins: the RUNNING one, else the
// next QUEUED one that a steer message or a reply put there, else the newest
// AWAITING one without a blocking question of its own.
// Rule 9.3.
func SteerTarget(st *State) *Task {
	if t := st.Running(); t != nil && t.Cancelling == nil {
		return t
	}
	var queued, awaiting *Task
	for _, t := range st.Tasks {
		if t.Cancelling != nil {
			continue
		}
		switch {
		case t.Status == conversation.TaskQueued && (t.Steer || t.Replied):
			if queued == nil || t.Order > queued.Order {
				queued = t
			}
		case t.Status == conversation.TaskAwaiting && !t.Blocked():
			if awaiting == nil || t.N > awaiting.N {
				awaiting = t
			}
		}
	}
	if queued != nil {
		return queued
	}
	return awaiting
}

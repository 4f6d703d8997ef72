package state

import (
	"time"

	"parley/conversation"
)

// Lease is the last hand-out of a task to an outside runtime.
type Lease struct {
	Generation uint32 // of the hand-out, from 1
	Runtime    conversation.RuntimeName
	Until      time.Time `json:",omitzero"`  // zero = it never ends by itself
	Read       bool      `json:",omitempty"` // the runtime says that it has read the message
	Heard      bool      `json:",omitempty"` // the runtime has given a sign of life
	Ended      bool      `json:",omitempty"` // it ran out, or the runtime gave up
	NotBefore  time.Time `json:",omitzero"`  // of one that has ended: the next hand-out
}

// Held is true while a runtime has the task.
func (l *Lease) Held() bool { return l != nil && !l.Ended }

// applyRuntimeStatus: a hand-out reads the message, for no step does.
// Rules 9.11c, 9.11d, 9.11f.
func (st *State) applyRuntimeStatus(e conversation.Event, t *Task, b conversation.RuntimeStatus) {
	if t == nil {
		return
	}
	if m := t.Message(b.Message); m != nil && m.Read == 0 {
		m.Read, m.Files = e.Seq, nil
		t.readFirst()
	}
	if b.Status == conversation.RuntimeHandedOut {
		t.Lease = &Lease{Generation: b.Generation, Runtime: b.Runtime, Until: b.Until}
		return
	}
	l := t.Lease
	if l == nil || l.Generation != b.Generation {
		return
	}
	if b.Status == conversation.RuntimeFailed {
		l.Ended, l.Until, l.NotBefore = true, time.Time{}, b.NotBefore
		return
	}
	l.Until, l.Heard = b.Until, true
	l.Read = l.Read || b.Status == conversation.RuntimeRead
}

// maxEndedMessages bounds of how many messages an outside session remembers how
// their tasks ended: a runtime that speaks of one of them is told.
const maxEndedMessages = 64

// endedMessage is the number of a message that has ended, and how its task did.
type endedMessage struct {
	N      uint32
	Status conversation.TaskStatus
}

// endedMessages are the last ones of an outside session, the oldest first.
type endedMessages []endedMessage

// note remembers how a message ended.
func (l *endedMessages) note(b conversation.MessageResolved) {
	status := conversation.TaskComplete
	switch b.How {
	case conversation.ResolvedCancelled, conversation.ResolvedWithdrawn:
		status = conversation.TaskCancelled
	case conversation.ResolvedFailed:
		status = conversation.TaskError
	}
	*l = append(*l, endedMessage{conversation.Ordinal(string(b.Message), 'm'), status})
	if extra := len(*l) - maxEndedMessages; extra > 0 {
		*l = append(endedMessages(nil), (*l)[extra:]...)
	}
}

// As is how the task of a message has ended; 0 = that was too long ago.
func (l *endedMessages) As(id conversation.MessageID) conversation.TaskStatus {
	if l == nil {
		return 0
	}
	n := conversation.Ordinal(string(id), 'm')
	for _, m := range *l {
		if m.N == n {
			return m.Status
		}
	}
	return 0
}

// TaskOf is the open task that a message has triggered; nil if there is none.
func (st *State) TaskOf(trigger conversation.MessageID) *Task {
	for _, t := range st.Tasks {
		if t.Trigger == trigger {
			return t
		}
	}
	return nil
}

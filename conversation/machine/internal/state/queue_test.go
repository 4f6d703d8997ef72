package state

import (
	"fmt"
	"testing"
	"time"

	"parley/conversation"
)

// How many tasks only wait is known after each event, and again after a load.
func TestWaiters(t *testing.T) {
	st := New(conversation.SessionKey{Session: "s"})
	queued := func(n int, b conversation.MessageAccepted) conversation.Event {
		b.Message, b.Disposition, b.Text = conversation.MessageID(fmt.Sprintf("m%d-s", n)), conversation.Queued, "hello"
		return conversation.Event{Task: conversation.TaskID(fmt.Sprintf("t%d-s", n)), Body: b}
	}
	status := func(n int, before, after conversation.TaskStatus) conversation.Event {
		return conversation.Event{Task: conversation.TaskID(fmt.Sprintf("t%d-s", n)), Body: conversation.TaskStatusChanged{Old: before, New: after}}
	}
	for i, c := range []struct {
		event conversation.Event
		want  int
	}{
		{conversation.Event{Body: conversation.SessionCreated{Agent: conversation.Coordinator}}, 0},
		{queued(1, conversation.MessageAccepted{}), 1},
		{status(1, conversation.TaskQueued, conversation.TaskRunning), 0},
		{queued(2, conversation.MessageAccepted{}), 1},
		{queued(3, conversation.MessageAccepted{}), 2},
		{queued(4, conversation.MessageAccepted{}), 3},
		{queued(5, conversation.MessageAccepted{Preempts: true}), 3}, // it goes first
		{conversation.Event{Task: "t3-s", Body: conversation.MessageEdited{Message: "m3-s", Text: "other"}}, 3},
		{status(1, conversation.TaskRunning, conversation.TaskComplete), 3},
		{status(5, conversation.TaskQueued, conversation.TaskRunning), 3},
		{status(5, conversation.TaskRunning, conversation.TaskComplete), 3},
		{status(2, conversation.TaskQueued, conversation.TaskRunning), 2},
		{queued(6, conversation.MessageAccepted{}), 3},
		{queued(7, conversation.MessageAccepted{}), 4},
		{conversation.Event{Task: "t4-s", Body: conversation.TaskCancelling{By: conversation.ByUser}}, 2}, // those behind it
		{status(4, conversation.TaskQueued, conversation.TaskCancelled), 2},
		{conversation.Event{Task: "t7-s", Body: conversation.MessageMoved{Message: "m7-s", Before: "m6-s"}}, 3}, // counted anew
		{status(6, conversation.TaskQueued, conversation.TaskCancelled), 2},
		{queued(8, conversation.MessageAccepted{NotBefore: time.Unix(9, 0)}), 0}, // it waits for its time
		{queued(9, conversation.MessageAccepted{}), 1},
	} {
		c.event.Seq = st.Head + 1
		if err := st.Apply(c.event); err != nil {
			t.Fatal(err)
		}
		if got := len(Waiters(&st)); got != c.want || len(Active(&st))+got != len(st.Tasks) {
			t.Errorf("after event %d: %d of %d only wait, want %d", i+1, got, len(st.Tasks), c.want)
		}
		data, err := st.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Restore(st.Key, data)
		if err != nil || len(Waiters(&again)) < c.want {
			t.Errorf("after event %d and a load: %d only wait, want %d, %v", i+1, len(Waiters(&again)), c.want, err)
		}
		if next := st.RunnableAt(time.Unix(1, 0)); c.want > 0 && (next == nil || next.Status != conversation.TaskQueued) {
			t.Errorf("after event %d nothing starts next", i+1)
		}
	}
}

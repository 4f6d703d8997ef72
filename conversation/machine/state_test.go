package machine

import (
	"testing"
	"time"

	"parley/conversation"
)

// What Apply takes from a log never makes a snapshot panic: a time that JSON
// cannot say is an error, and the log is as good without a snapshot.
func TestSnapshotOfWhatIsNoJSON(t *testing.T) {
	w := script(t, "create", `send a "one"`)
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, body := range []conversation.EventBody{
		conversation.Asked{Question: "q1", Text: "Why?", ExpiresAt: late},
		conversation.ToolStarted{Call: "c1", Tool: "clock", Deadline: late},
		conversation.SessionUpdated{Policy: conversation.Overrides{"inbox.mode": []byte(`"stee`)}},
	} {
		w.load()
		if err := w.s.Apply(conversation.Event{Seq: w.s.Head() + 1, At: w.now, Task: w.s.state.TaskID(1), Body: body}); err != nil {
			t.Fatal(err)
		}
		if data, err := w.s.Snapshot(); err == nil || data != nil {
			t.Errorf("%T: a snapshot of %d bytes, %v", body, len(data), err)
		}
		if w.s.Standing(); len(w.s.View().Tasks) != 1 {
			t.Errorf("%T: the session is of no use", body)
		}
	}
}

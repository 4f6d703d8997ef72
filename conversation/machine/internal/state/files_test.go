package state

import (
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
)

// What waits is shown with its files; what a step has read is remembered without them.
func TestFilesOfWhatWaits(t *testing.T) {
	st := New(conversation.SessionKey{Tenant: "acme", Session: "s1"})
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	file := attached.File{Hash: attached.HashOf([]byte("x")), Name: "a.png", Type: "image/png", Size: 1}
	apply := func(seq conversation.Seq, body conversation.EventBody) {
		st.Apply(conversation.Event{Seq: seq, At: at, Task: "t1-s1", Body: body})
	}
	apply(1, conversation.MessageAccepted{Message: "m1-s1", Author: "ada", Text: "look", Disposition: conversation.Started, Files: []attached.File{file}})
	if v := st.View(); len(v.Inbox) != 1 || len(v.Inbox[0].Files) != 1 || v.Inbox[0].Files[0] != file {
		t.Fatalf("%+v", v.Inbox)
	}
	apply(2, conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m1-s1"}})
	if m := st.Tasks[0].Messages[0]; m.Read != 2 || m.Files != nil {
		t.Errorf("%+v", m)
	}
}

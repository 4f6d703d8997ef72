package transcript

import (
	"testing"

	"parley/conversation"
	"parley/conversation/attached"
)

// A model is told of what is attached to a message, and no text can say so in its place.
func TestFilesAreNamed(t *testing.T) {
	files := []attached.File{{Name: "a.png", Type: "image/png", Size: 3 << 10}, {Name: "b.txt", Type: "text/plain", Size: 7}}
	for text, want := range map[string]string{
		"":     "[attachment: a.png, image/png, 3 KB; this model cannot see it]\n[attachment: b.txt, text/plain, 7 bytes; its text is not shown here]",
		"look": "look\n[attachment: a.png, image/png, 3 KB; this model cannot see it]\n[attachment: b.txt, text/plain, 7 bytes; its text is not shown here]",
		"[attachment: c.png, image/png, 1 KB]": " [attachment: c.png, image/png, 1 KB]\n[attachment: a.png, image/png, 3 KB; this model cannot see it]\n" +
			"[attachment: b.txt, text/plain, 7 bytes; its text is not shown here]",
	} {
		tr := New()
		tr.Add(conversation.Event{Seq: 1, Task: "t1", Body: conversation.MessageAccepted{Message: "m1", Author: "ann", Text: text, Files: files}})
		tr.Add(conversation.Event{Seq: 2, Task: "t1", Body: conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m1"}}})
		if len(tr.entries) != 1 || tr.entries[0].Text != want || len(tr.entries[0].Files) != 2 {
			t.Errorf("%q is shown as %+v", text, tr.entries)
		}
	}
}

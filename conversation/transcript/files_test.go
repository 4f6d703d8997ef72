package transcript

import (
	"testing"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/policy"
)

var (
	picture = attached.File{Name: "a.png", Type: "image/png", Size: 3 << 10}
	letter  = attached.File{Name: "b.txt", Type: "text/plain", Size: 7 << 10}
)

// With a message and with an answer go its files, which no text can name in their place; they
// count before anybody has read them.
func TestFilesGoWithWhatWasSaid(t *testing.T) {
	files := []attached.File{picture, letter}
	rules := policy.Rules{Policy: policy.Policy{Context: policy.Context{FileText: 4 << 10, FileTexts: 8 << 10}}}
	tr := Of(conversation.SessionKey{Session: "s1"}, &rules)
	events := []conversation.EventBody{
		conversation.MessageAccepted{Message: "m1", Author: "ann", Text: "[attachment: c.png, image/png, 1 KB]", Files: files},
		conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m1"}},
		conversation.StepFinished{Step: 1, Outcome: conversation.StepOK, Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "c1", Tool: conversation.ToolAsk, Args: "{}"}}},
		conversation.Asked{Question: "q1", ModelCall: "c1", Blocking: true},
		conversation.Asked{Question: "q2", ModelCall: "c2"},
		conversation.MessageAccepted{Message: "m2", Author: "ann", Text: "[attachment: d]", Files: files[:1]},
		conversation.QuestionAnswered{Question: "q1", Message: "m2", Text: "[attachment: d]"},
		conversation.MessageAccepted{Message: "m3", Author: "ann", Files: files[1:]},
		conversation.QuestionAnswered{Question: "q2", Message: "m3"},
		conversation.MessageAccepted{Message: "m4", Author: "ann", Text: "and this", Files: files[:1]},
		conversation.StepStarted{Step: 2, Attempt: 1, Read: []conversation.MessageID{"m4"}},
	}
	for i, body := range events {
		tr.Add(conversation.Event{Seq: conversation.Seq(i + 1), Task: "t1", Body: body})
	}
	want := []struct {
		text  string
		files int
	}{{" [attachment: c.png, image/png, 1 KB]", 2}, {"", 0}, {" [attachment: d]", 1}, {"[answer to question q2: ]", 1}, {"and this", 1}}
	total := conversation.Counts{}
	for i, w := range want {
		if len(tr.entries) != len(want) {
			t.Fatalf("%d entries: %+v", len(tr.entries), tr.entries)
		}
		e := &tr.entries[i]
		if e.Text != w.text || len(e.Files) != w.files || e.FileTokens != conversation.FileTokens(e.Files, 4<<10) {
			t.Errorf("entry %d is %+v, want %+v", i, e, w)
		}
		total = plus(total, e.Counts())
	}
	if total != tr.counts {
		t.Errorf("they count %+v, and are %+v", tr.counts, total)
	}
	if n := tr.entries[0].FileTokens; n < 1600+1024 || n > 1600+1024+100 {
		t.Errorf("a picture and 4 KiB of text are %d tokens", n)
	}
}

package machine

import (
	"slices"
	"testing"

	"parley/conversation"
)

// A stop keeps what followers have seen of the attempt that it stops. The text of an
// attempt that has failed was dropped, and stays so, also when the shell still has it.
func TestStopKeepsItsOwnDraft(t *testing.T) {
	w := script(t, "create", `send a "Write to Ann"`, "fail unavailable", "wait 1s")
	d := w.s.Decide(conversation.Inputs{At: w.now, Slot: true, Shown: []conversation.DraftView{
		{Draft: conversation.Draft(1, 1, 0), Text: "Dear An"}, {Draft: conversation.Draft(1, 2, 0), Text: "Dearest Ann"},
	}}, conversation.Cancel{By: conversation.ByUser})
	var kept []string
	for _, e := range d.Events {
		if b, ok := e.Body.(conversation.PartialResponse); ok {
			kept = append(kept, b.Text)
		}
	}
	if !slices.Equal(kept, []string{"Dearest Ann"}) {
		t.Errorf("kept %q", kept)
	}
}

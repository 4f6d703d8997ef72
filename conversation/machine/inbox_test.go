package machine

import (
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// N-05: an edit is stored even if it says exactly what is remembered of a longer
// text; one that says what the message says already is not.
func TestEditToWhatIsRemembered(t *testing.T) {
	long := strings.Repeat("x", state.RememberedText)
	for _, c := range []struct {
		said, edited string
		events       int
	}{
		{long + "yz", conversation.Excerpt(long+"yz", state.RememberedText), 1},
		{conversation.Excerpt(long+"yz", state.RememberedText), conversation.Excerpt(long+"yz", state.RememberedText), 1}, // not known: too long to be remembered
		{long, long, 0},
		{long, long + "y", 1},
		{"x", "x", 0},
		{"x", "x ", 1},
	} {
		w := script(t, "create", "slot off")
		say := w.s.Decide(conversation.Inputs{At: w.now}, conversation.Say{Author: "u", ClientMsgID: "a", Text: c.said})
		d := w.s.Decide(conversation.Inputs{At: w.now}, conversation.Edit{By: "u", Message: say.Receipt.Message, Text: c.edited})
		if d.Err != nil || len(d.Events) != c.events {
			t.Errorf("a text of %d bytes edited to one of %d: %v, %d events instead of %d", len(c.said), len(c.edited), d.Err, len(d.Events), c.events)
		}
	}
}

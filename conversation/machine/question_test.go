package machine

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// wronglyAwaiting says what is wrong with a task that is AWAITING_RESPONSE; "" if
// nothing is. The property test asks after every command.
// Rules 2.10, 4.10.
func wronglyAwaiting(s *Session, t *state.Task) string {
	if t.Status != conversation.TaskAwaiting || t.Cancelling != nil {
		return ""
	}
	if len(t.Questions) == 0 {
		return "it waits, and has no question open"
	}
	if s.state.Key.Session.Depth() == 0 && len(t.UnreadMessages()) > 0 {
		return "a message waits unread behind an open question"
	}
	return ""
}

// N-04: an answer that the model finds in a message is the whole message, however
// long. The session remembers its beginning; the rest comes with the model's answer.
func TestAnswerIsWhole(t *testing.T) {
	long := strings.Repeat("JWT, please. ", 3000)
	ask := []string{`create`, `send a "Set up auth"`, `model k1:askUser{"question":"OAuth or JWT?","blocking":false}`, `model`, fmt.Sprintf("send b %q", long)}
	answered := func(w *scene) string {
		for _, e := range w.log {
			if b, ok := e.Body.(conversation.QuestionAnswered); ok {
				return b.Text
			}
		}
		return ""
	}
	cover := `model k2:coverMessage{"messageId":2,"as":"answer"}`
	if w := script(t, append(ask, cover)...); answered(w) != long {
		t.Errorf("the answer has %d bytes of %d", len(answered(w)), len(long))
	}
	if w := script(t, append(ask, "crash", cover)...); answered(w) != long {
		t.Errorf("after a crash the answer has %d bytes of %d", len(answered(w)), len(long))
	}
	// What a shell brings of another message, or of another text, is not it.
	for _, shown := range [][]conversation.OpenMessage{nil, {{Message: "m1-s", Text: long}}, {{Message: "m2-s", Text: "No."}}} {
		w := script(t, ask...)
		step, attempt := w.openStep("")
		d := w.s.Decide(conversation.Inputs{At: w.now, Slot: true}, conversation.ModelAnswered{
			Step: step, Attempt: attempt, Answer: conversation.ModelAnswer{Items: items(split(cover)[1:])}, Shown: shown,
		})
		for _, e := range d.Events {
			if b, ok := e.Body.(conversation.QuestionAnswered); ok && b.Text != conversation.Excerpt(long, state.RememberedText) {
				t.Errorf("with %d messages the answer has %d bytes", len(shown), len(b.Text))
			}
		}
	}
}

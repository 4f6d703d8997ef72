package machine

import (
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

package machine

import (
	"testing"

	"parley/conversation"
	"parley/conversation/attached"
)

// The result of a caller's tool is a text, whichever way it comes. Who gives none, or a file
// with it that no model would be shown, is told so, and the call goes on waiting.
func TestCallersResultIsAText(t *testing.T) {
	file := []attached.File{{}}
	for name, c := range map[string]struct {
		say     conversation.Say
		refused bool
	}{
		"a text that names the question": {conversation.Say{InReplyTo: "q1", Text: "12 degrees"}, false},
		"a file that names the question": {conversation.Say{InReplyTo: "q1", Files: file}, true},
		"a blank that names it":          {conversation.Say{InReplyTo: "q1", Text: " \n", Files: file}, true},
		"a text with a file":             {conversation.Say{InReplyTo: "q1", Text: "12 degrees", Files: file}, true},
		"/answer with a file":            {conversation.Say{Text: "/answer 12 degrees", Files: file}, true},
		"a file that names nothing":      {conversation.Say{Files: file}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := script(t, `create policy={"tools.caller":[{"name":"get_weather"}]}`, `send a "Which weather?"`, `model k1:get_weather{}`)
			c.say.Author, c.say.ClientMsgID = "u", "b"
			d := w.s.Decide(conversation.Inputs{At: w.now, Slot: true}, c.say)
			if refused := d.Err != nil && d.Err.Code == conversation.BadRequest && len(d.Events) == 0; refused != c.refused {
				t.Errorf("%v, %v", d.Err, d.Events)
			}
		})
	}
}

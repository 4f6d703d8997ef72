package machine

import (
	"strings"
	"testing"

	"parley/conversation"
)

// Ids of another session are not found, however much they look alike.
func TestForeignIDs(t *testing.T) {
	w := newScene(t)
	var out strings.Builder
	for _, line := range []string{"create", `send a "One"`, `send b "Two"`} {
		w.run(&out, line)
	}
	for _, c := range []conversation.Command{
		conversation.Edit{By: "u", Message: "m2-x", Text: "x"}, conversation.Edit{By: "u", Message: "m02-s", Text: "x"}, conversation.Withdraw{By: "u", Message: "m2"},
		conversation.Withdraw{By: "u", Message: "t2-s"}, conversation.Move{By: "u", Message: "m2-s/d1"}, conversation.Cancel{By: conversation.ByUser, Task: "t1-x"}, conversation.Cancel{By: conversation.ByUser, Task: "m1-s"},
		conversation.Reply{Author: "u", Task: "t1-x", Text: "x"}, conversation.Reply{Author: "u", Task: "t2-s", Text: "x"}, conversation.Answer{Author: "u", Question: "q1", Text: "x"},
		conversation.Answer{Author: "u", Question: "d1.q1", Text: "x"}, conversation.Edit{By: "u", Message: "m0-s", Text: "x"},
	} {
		if d := w.s.Decide(conversation.Inputs{At: w.now}, c); d.Err == nil || d.Err.Code != conversation.NotFound || len(d.Events) > 0 {
			t.Errorf("%+v: %v", c, d.Err)
		}
	}
}

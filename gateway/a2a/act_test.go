package a2a

import (
	"testing"

	"parley/conversation"
)

// A message to a task that names no question answers what the task waits for; the result of
// a call that the caller runs is the last that it could mean.
func TestAnsweredWithoutAName(t *testing.T) {
	ask := func(id string, blocking bool, call string) conversation.QuestionView {
		return conversation.QuestionView{Task: "t1", Asked: conversation.Asked{
			Question: conversation.QuestionID(id), Blocking: blocking, Call: conversation.CallID(call),
		}}
	}
	calls := []conversation.CallView{{Task: "t1", Call: "c1", Tool: "get_weather", Caller: true}, {Task: "t1", Call: "c2", Tool: "browse"}}
	other := ask("q9", true, "")
	other.Task = "t2"
	for name, c := range map[string]struct {
		open []conversation.QuestionView
		want conversation.QuestionID
	}{
		"nothing":                          {nil, ""},
		"of another task":                  {[]conversation.QuestionView{other}, ""},
		"a result alone":                   {[]conversation.QuestionView{other, ask("q1", true, "c1")}, "q1"},
		"a question behind a result":       {[]conversation.QuestionView{ask("q1", true, "c1"), ask("q2", true, "")}, "q2"},
		"one that does not block":          {[]conversation.QuestionView{ask("q1", true, "c1"), ask("q2", false, "")}, "q2"},
		"a question of a tool of ours":     {[]conversation.QuestionView{ask("q1", true, "c1"), ask("q2", true, "c2")}, "q2"},
		"one that blocks, behind another":  {[]conversation.QuestionView{ask("q1", false, ""), ask("q2", true, "")}, "q2"},
		"the first of those that block it": {[]conversation.QuestionView{ask("q1", true, ""), ask("q2", true, "")}, "q1"},
	} {
		if got := asksFirst(conversation.View{Questions: c.open, Calls: calls}, "t1"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

package scripted

import (
	"testing"

	"parley/conversation"
)

// A request for a summary is answered with the first words of the users'
// messages, behind those of an earlier summary; the same request always with the
// same. With tools, or without being asked, it is a request like any other.
func TestSummary(t *testing.T) {
	user := func(id conversation.MessageID, text string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleUser, Message: id, Text: text}
	}
	r := conversation.Request{
		Session: "s1", Agent: conversation.Coordinator, Attempt: 1,
		Entries: []conversation.Entry{
			{Role: conversation.RoleUser, Text: "[summary of the conversation so far: The user said:\n- Hello\n- Set up auth]"},
			user("m7-s1", "  one two\nthree four five six seven eight"),
			{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemText, Text: "I see"}}},
			{Role: conversation.RoleUser, Text: "[result of clock: 12:00]"},
			user("m8-s1", "thanks"),
		},
		Last: []conversation.Entry{{Role: conversation.RoleUser, Text: conversation.SummaryAsk + " in at most 100 words]"}},
	}
	const want = "The user said:\n- Hello\n- Set up auth\n- one two three four five six …\n- thanks"
	m := open(t, Options{})
	for range 2 {
		deltas, done, err := collect(m, t.Context(), r)
		if err != nil || len(deltas) != 0 || len(done.Items) != 1 || done.Items[0].Text != want {
			t.Fatalf("%v %+v %v", deltas, done, err)
		}
	}
	asked := r.Last
	r.Last = nil
	if _, is := summarise(&r); is {
		t.Error("a summary that nobody asked for")
	}
	r.Last, r.Tools = asked, []conversation.ToolSpec{{Name: "clock"}}
	if _, is := summarise(&r); is {
		t.Error("a message that looks like our request is taken for it")
	}
}

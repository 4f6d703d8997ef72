package scripted

import (
	"strings"
	"testing"

	"parley/conversation"
)

// A step whose answer must be calls says of each open message what became of it: one that a
// text has answered is covered, another one gets its answer by name.
func TestClosing(t *testing.T) {
	text := func(mark, text string) conversation.Item {
		return conversation.Item{Kind: conversation.ItemText, ID: mark, Text: text}
	}
	look := text("m1:1", "I look.")
	clock := conversation.Item{Kind: conversation.ItemCall, ID: "m1:1", Tool: "clock", Args: "{}"}
	cases := []struct {
		name   string
		say    []string
		did    []conversation.Item // one answer for each
		result string              // of a call; "" = none
		want   []string
	}{
		{"answered by a text", []string{"hello"}, []conversation.Item{text("m1:1", "Hello!")}, "", []string{`coverMessage m1:1.1 {"messageId":"1","as":"answered"}`}},
		{"not answered", []string{"thanks"}, nil, "", []string{`respondToUser m1:1 {"message":"You are welcome.","inReplyTo":"1"}`}},
		{"one of each", []string{"hello", "thanks"}, []conversation.Item{text("m1:1", "Hello!")}, "", []string{
			`coverMessage m1:1.1 {"messageId":"1","as":"answered"}`, `respondToUser m2:1 {"message":"You are welcome.","inReplyTo":"2"}`,
		}},
		{"its last line is left", []string{"/stream 2 ha\n/say B"}, []conversation.Item{text("m1:1", "ha ha")}, "", []string{`respondToUser m1:2 {"message":"B","inReplyTo":"1"}`}},
		{"a result is there", []string{"/tool clock {}\n/say $result"}, []conversation.Item{clock}, "12:00", []string{`respondToUser m1:2 {"message":"12:00","inReplyTo":"1"}`}},
		{"a result is still to come", []string{"/tool clock {}\n/say $result"}, []conversation.Item{clock}, "", nil},
		{"what was said beside a call is no answer", []string{"/preamble I look.\n/tool clock {}\n/say $result"}, []conversation.Item{look, clock}, "", nil},
		{"what would run is not begun", []string{"/tool clock {}\n/say B"}, nil, "", nil},
		{"no answer is wanted", []string{"/ignore"}, nil, "", nil},
		{"a blank text is no answer", []string{"/parts"}, []conversation.Item{text("m1:1", " ")}, "", nil},
		{"all is said, and nobody is named", []string{"/say A", "/say B"}, []conversation.Item{text("m2:1", "B"), text("m1:1", "A")}, "", []string{
			`coverMessage m1:1.1 {"messageId":"1","as":"answered"}`, `coverMessage m2:1.1 {"messageId":"2","as":"answered"}`,
		}},
	}
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		r := asking("")
		r.Entries, r.Open, r.MustCall = nil, nil, true
		r.Tools = []conversation.ToolSpec{{Name: conversation.ToolRespond}, {Name: conversation.ToolCover}}
		r.Forbidden = []conversation.ToolSpec{{Name: "clock"}}
		for i, say := range c.say {
			id := conversation.MessageID([]string{"m1", "m2"}[i])
			r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleUser, Task: r.Task, Message: id, Text: say})
			r.Open = append(r.Open, conversation.OpenMessage{Ordinal: i + 1, Message: id, Text: say})
		}
		for _, item := range c.did {
			r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleAssistant, Task: r.Task, ResponseID: item.ID, Items: []conversation.Item{item}})
			if c.result != "" {
				r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleTool, Task: r.Task, CallID: item.ID, Text: c.result})
			}
		}
		_, done, err := collect(m, t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range done.Items {
			got = append(got, item.Tool+" "+item.ID+" "+item.Args+item.Text)
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: the answer is %q, not %q", c.name, got, c.want)
		}
	}
}

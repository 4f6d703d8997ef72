package openai

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// What strict servers refuse: Mistral a user right behind a result, chat templates two
// messages of one side in a row, a beginning or an end of the assistant's, and
// a system's message alone.
func TestAlternate(t *testing.T) {
	user := func(text string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleUser, Text: text}
	}
	said := func(texts ...string) conversation.Entry {
		e := conversation.Entry{Role: conversation.RoleAssistant}
		for _, text := range texts {
			item := conversation.Item{Kind: conversation.ItemText, Text: text}
			if id, is := strings.CutPrefix(text, "call "); is {
				item = conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: "f", Args: "{}"}
			}
			e.Items = append(e.Items, item)
		}
		return e
	}
	result := func(id string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleTool, CallID: id, Text: "found " + id}
	}
	for name, c := range map[string]struct {
		entries []conversation.Entry
		last    []conversation.Entry
		note    string
		want    []string
	}{
		"nobody has said anything":   {nil, nil, "", []string{"user: [nothing was said]"}},
		"users in a row":             {[]conversation.Entry{user("a"), user("b"), said("c"), user("d")}, nil, "", []string{"user: a\n\nb", "assistant: c", "user: d"}},
		"the assistant begins":       {[]conversation.Entry{said("a"), user("b")}, nil, "", []string{"user: [the conversation so far]", "assistant: a", "user: b"}},
		"the assistant ends":         {[]conversation.Entry{user("a"), said("b")}, nil, "", []string{"user: a", "assistant: b", "user: [go on]"}},
		"assistants in a row":        {[]conversation.Entry{user("a"), said("b"), said("c", "call 1"), result("1")}, nil, "", []string{"user: a", "assistant: b\n\nc call 1", "tool: found 1"}},
		"two answers with calls":     {[]conversation.Entry{user("a"), said("call 1"), result("1"), said("call 2"), result("2")}, nil, "", []string{"user: a", "assistant: call 1", "tool: found 1", "assistant: call 2", "tool: found 2"}},
		"a user behind a result":     {[]conversation.Entry{user("a"), said("call 1", "call 2"), result("1"), result("2"), user("b"), user("c")}, nil, "", []string{"user: a", "assistant: call 1 call 2", "tool: found 1", "tool: found 2", "assistant: OK.", "user: b\n\nc"}},
		"a note behind a result":     {[]conversation.Entry{user("a"), said("call 1"), result("1")}, nil, "[1] a", []string{"user: a", "assistant: call 1", "tool: found 1\n\n[1] a"}},
		"the last step":              {[]conversation.Entry{user("a"), said("call 1"), result("1")}, []conversation.Entry{user("[wrap up]")}, "[1] a", []string{"user: a", "assistant: call 1", "tool: found 1", "assistant: OK.", "user: [wrap up]\n\n[1] a"}},
		"a result without its call ": {[]conversation.Entry{result("1"), said("b"), user("c")}, nil, "", []string{"user: [result of call 1: found 1]", "assistant: b", "user: c"}},
	} {
		for _, system := range []string{"", "Be brief."} {
			m, err := New(Options{API: Chat, Alternate: true, Connection: Connection{Model: "m"}})
			if err != nil {
				t.Fatal(err)
			}
			r := conversation.Request{System: system, Entries: c.entries, Last: c.last, Note: c.note}
			var got []string
			for _, message := range m.chatMessages(&r, httpmodel.NewNames(&r)) {
				line := message.Role + ":"
				if message.Content != nil {
					line += " " + message.Content.text
				}
				for _, call := range message.ToolCalls {
					line += " call " + call.ID
				}
				line = strings.NewReplacer(httpmodel.ShortCallID("1"), "1", httpmodel.ShortCallID("2"), "2").Replace(line)
				got = append(got, line)
			}
			want := c.want
			if system != "" {
				want = slices.Concat([]string{"system: " + system}, want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: the messages are\n%q, not\n%q", name, got, want)
			}
		}
	}
}

// Mistral refuses each id of a call that is not nine letters and digits: its own are,
// those of other models and of this package are not.
func TestShortIDs(t *testing.T) {
	m, err := New(Options{API: Chat, Alternate: true, Connection: Connection{Model: "m"}})
	if err != nil {
		t.Fatal(err)
	}
	short := regexp.MustCompile(`^[A-Za-z0-9]{9}$`)
	r := conversation.Request{}
	ids := []string{"aB3dE0001", "call_1", "call_2", "toolu_01", "abc_efg-h", "functions.f:0"}
	for _, id := range ids {
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemCall, ID: id, Tool: "f", Args: "{}"}}},
			conversation.Entry{Role: conversation.RoleTool, CallID: id, Text: "found"})
	}
	seen := map[string]bool{}
	messages := m.chatMessages(&r, httpmodel.NewNames(&r))
	for i, message := range messages {
		if len(message.ToolCalls) == 0 {
			continue
		}
		id := message.ToolCalls[0].ID
		if !short.MatchString(id) || seen[id] || messages[i+1].ToolCallID != id {
			t.Errorf("the id %q, of the result %q", id, messages[i+1].ToolCallID)
		}
		seen[id] = true
	}
	if !seen[ids[0]] || len(seen) != len(ids) {
		t.Errorf("the ids are %v", seen)
	}
}

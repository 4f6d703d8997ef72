package scripted

import (
	"testing"

	"parley/conversation"
)

// N-18. Directives and rules are about what was said, not about the line that says who said
// it. $from is who that is; with one author it is no variable.
func TestSpeakers(t *testing.T) {
	w := newPlay(t, false)
	w.say("/say one of $from")
	w.author = "bob"
	w.say("/ask Which one? [red/light blue]\n/say $reply for $from")
	w.author = "eve"
	w.say("red")
	w.author = ""
	w.say("Hello")
	w.did("text one of $from", "end", "ask true: Which one? [red light blue]", "text red for bob (bob)", "end", "text Hello! I am a scripted demo model: rules, not AI. Say \"help\" to see what I understand.", "end")
}

// A summary says who has said what.
func TestSummaryNamesSpeakers(t *testing.T) {
	r := conversation.Request{
		Session: "s1", Named: true,
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Message: "m1-s1", Text: "[from Ann (u)]\none two three four five six seven"}},
		Last:    []conversation.Entry{{Role: conversation.RoleUser, Text: conversation.SummaryAsk + " in at most 100 words]"}},
	}
	d, is := summarise(&r)
	if want := "The user said:\n- [from Ann (u)] one two three four five six …"; !is || d.items[0].Text != want {
		t.Errorf("%+v, want %q", d.items, want)
	}
}

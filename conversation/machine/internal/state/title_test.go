package state

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
)

func TestFirstWords(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"  \n\t ", ""},
		{"Fix the login bug", "Fix the login bug"},
		{"  Fix\n\nthe\tlogin \u00a0 bug\r\n", "Fix the login bug"},
		{"\x00Fix\x1b[31m the\u202e login\u2066 bug", "Fix [31m the login bug"},
		{x(60), x(60)},
		{x(61), x(60) + "…"},
		{x(40) + " " + x(30), x(40) + "…"},
		{x(60) + " " + x(30), x(60) + "…"},
		{x(20) + " " + x(60), x(20) + " " + x(39) + "…"},
		{strings.Repeat("日本語 ", 30), strings.TrimSpace(strings.Repeat("日本語 ", 15)) + "…"},
		{strings.Repeat("👍", 90), strings.Repeat("👍", 60) + "…"},
		{strings.Repeat("\n", 100_000) + "far", "…"},
		{"ok\xff\xfe then", "ok then"},
	} {
		got := FirstWords(c.text)
		if got != c.want || utf8.RuneCountInString(got) > ExcerptLength+1 || !utf8.ValidString(got) {
			t.Errorf("%.80q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A session without a title is called by the first words of its first message, as the
// message is now. Its own title comes before that, and an empty one is none.
func TestTitle(t *testing.T) {
	st := New(conversation.SessionKey{Tenant: "acme", Session: "s"})
	task := conversation.TaskID("t1-s")
	apply := func(task conversation.TaskID, body conversation.EventBody) {
		t.Helper()
		if err := st.Apply(conversation.Event{Seq: st.Head + 1, Task: task, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	called := func(want string) {
		t.Helper()
		data, err := st.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Restore(st.Key, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []State{st, again} {
			if v, sum := s.View().Title, s.Summary().Title; v != want || sum != want {
				t.Errorf("at %d the view says %q and the list %q, want %q", st.Head, v, sum, want)
			}
		}
	}
	said := func(n uint32, text string, how conversation.Disposition) {
		t.Helper()
		apply(task, conversation.MessageAccepted{Message: st.MessageID(n), Author: "u", Text: text, Disposition: how})
	}
	title := func(text string) { apply("", conversation.SessionUpdated{Title: &text}) }
	apply("", conversation.SessionCreated{Owner: "u"})
	called("")
	said(1, "Fix the\nlogin bug", conversation.Queued)
	called("Fix the login bug")
	said(2, "What's the weather?", conversation.Joined)
	called("Fix the login bug")
	apply(task, conversation.MessageEdited{Message: st.MessageID(1), Text: "Fix the logout"})
	apply(task, conversation.MessageEdited{Message: st.MessageID(2), Text: "Rain?"})
	called("Fix the logout")
	title("Bugs")
	called("Bugs")
	title("")
	called("Fix the logout")
	apply("", conversation.ContextCleared{By: "u"})
	called("Fix the logout")
	apply(task, conversation.MessageWithdrawn{Message: st.MessageID(1), NewTrigger: st.MessageID(2)})
	apply(task, conversation.MessageResolved{Message: st.MessageID(1), How: conversation.ResolvedWithdrawn})
	called("Rain?")
	apply(task, conversation.MessageWithdrawn{Message: st.MessageID(2)})
	apply(task, conversation.MessageResolved{Message: st.MessageID(2), How: conversation.ResolvedWithdrawn})
	called("")
	said(3, "Hello", conversation.Joined)
	called("Hello")
}

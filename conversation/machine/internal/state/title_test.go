package state

import (
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/attached"
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

// A session whose first message is a file alone is called by its name until something is said,
// then by that. What an older program has stored of such a message is no title either.
func TestTitleOfFiles(t *testing.T) {
	begin := func() (*State, func(body conversation.EventBody)) {
		st := New(conversation.SessionKey{Tenant: "acme", Session: "s"})
		apply := func(body conversation.EventBody) {
			t.Helper()
			if err := st.Apply(conversation.Event{Seq: st.Head + 1, Task: "t1-s", Body: body}); err != nil {
				t.Fatal(err)
			}
		}
		apply(conversation.SessionCreated{Owner: "u"})
		return &st, apply
	}
	said := func(n, text string, how conversation.Disposition, names ...string) conversation.MessageAccepted {
		m := conversation.MessageAccepted{Message: conversation.MessageID("m" + n + "-s"), Author: "u", Text: text, Disposition: how}
		for _, name := range names {
			m.Files = append(m.Files, attached.File{Hash: attached.HashOf([]byte(name)), Name: name, Type: "image/png", Size: 1})
		}
		return m
	}
	edited := func(n, text string) conversation.EventBody {
		return conversation.MessageEdited{Message: conversation.MessageID("m" + n + "-s"), Text: text}
	}
	gone := func(n string) conversation.EventBody {
		return conversation.MessageWithdrawn{Message: conversation.MessageID("m" + n + "-s")}
	}
	first, queued, joined := said("1", " \n", conversation.Queued, "cat.png", "dog.png"), conversation.Queued, conversation.Joined
	for _, c := range []struct {
		what string
		does []conversation.EventBody
		want string
	}{
		{"files alone", []conversation.EventBody{first}, "cat.png, dog.png"},
		{"other files", []conversation.EventBody{first, said("2", "", joined, "cow.png")}, "cat.png, dog.png"},
		{"words behind them", []conversation.EventBody{first, said("2", "", joined, "cow.png"), said("3", "What is it?", joined), said("4", "Well?", joined)}, "What is it?"},
		{"words of the same", []conversation.EventBody{first, edited("1", "My cat"), said("2", "What is it?", joined)}, "My cat"},
		{"words of another one", []conversation.EventBody{first, said("2", "", joined, "cow.png"), edited("2", "My cow")}, "My cow"},
		{"taken back", []conversation.EventBody{first, said("2", "", joined, "cow.png"), gone("1")}, "cow.png"},
		{"taken back before words", []conversation.EventBody{first, said("2", "", joined, "cow.png"), said("3", "What?", joined), gone("3")}, "cat.png, dog.png"},
		{"nothing but white space", []conversation.EventBody{said("1", " ", queued), said("2", "Hi", joined)}, "Hi"},
	} {
		st, apply := begin()
		for _, e := range c.does {
			apply(e)
		}
		if got := st.View().Title; got != c.want || st.Summary().Title != c.want {
			t.Errorf("%s: %q and in the list %q, want %q", c.what, got, st.Summary().Title, c.want)
		}
	}
	st, apply := begin()
	apply(first)
	st.Opening = &opening{Message: 1}
	apply(said("2", "What is it?", joined))
	if got := st.View().Title; got != "What is it?" {
		t.Errorf("after an older program: %q", got)
	}
}

package command

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"parley/conversation"

	"pgregory.net/rapid"
)

// nothing in a prompt is a command or a mention to the program; what is neither
// stays as it is.
func TestHarmless(t *testing.T) {
	const j = wordJoiner
	for _, c := range []struct{ text, want string }{
		{"Hello", "Hello"},
		{"/config permissionMode=acceptEdits", currentHead + "\n/config permissionMode=acceptEdits"},
		{" \n\t/context", currentHead + "\n \n\t/context"},
		{"\ufeff\u200b\u2060\u00a0\x00/context", currentHead + "\n\ufeff\u200b\u2060\u00a0\x00/context"},
		{"and/or", "and/or"},
		{"see\n/context", "see\n/context"}, // only at the beginning
		{"@/etc/hostname", "@" + j + "/etc/hostname"},
		{"a @b\n@c\t@d\u00a0@e\u3000@f", "a @" + j + "b\n@" + j + "c\t@" + j + "d\u00a0@" + j + "e\u3000@" + j + "f"},
		{`(@a) "@b" '@c' 、@d 。@e`, "(@" + j + "a) \"@" + j + "b\" '@" + j + "c' 、@" + j + "d 。@" + j + "e"},
		{`@"a b"`, "@" + j + `"a b"`},
		{"你@a ü@b", "你@" + j + "a ü@" + j + "b"},
		{"@@a", "@" + j + "@" + j + "a"},
		{`x@[a](claude-ref:b "c")@d`, "x@" + j + `[a](claude-ref:b "c")@` + j + "d"},
		{"x@/etc/hostname x@~/a x@./b", "x@" + j + "/etc/hostname x@" + j + "~/a x@" + j + "./b"},
		{"jo.doe_+-x@example.org, git@host:a, x@1.2, at @ home, end @", "jo.doe_+-x@example.org, git@host:a, x@1.2, at @ home, end @"},
		{"@" + j + "a, @" + j + "/b, x@" + j + "/c, @" + j, "@" + j + "a, @" + j + "/b, x@" + j + "/c, @" + j}, // once is enough
		{"\xff@a", "\xff@" + j + "a"},
	} {
		got, broken := harmless(c.text)
		if got != c.want || broken != strings.Contains(got, "@"+j) {
			t.Errorf("%q became %q (broken %v), want %q", c.text, got, broken, c.want)
		}
	}
}

// The trigger at the beginning of a prompt, and those at the beginning of a word, as a
// program may look for them.
var (
	commandAtStart = regexp.MustCompile(`^[\s\p{Z}\p{Cc}\p{Cf}]*/`)
	mentionInText  = regexp.MustCompile(`(?:^|[^0-9A-Za-z_+-])@[^ \t\r\n` + wordJoiner + `]`)
)

// whatever a text is made of, its prompt has no trigger, and is the text when what
// was put in is taken out again. Its prompt's prompt has nothing more.
func TestHarmlessIsTheText(t *testing.T) {
	piece := rapid.SampledFrom([]string{
		"@", "@", "@", "/", "/config", " ", "\n", "\t", "\r", "\x00", "\u00a0", "\u3000", "\u200b", "\ufeff", wordJoiner, "。", "、", "？", "！", "(", "[", "]", "\"", "'",
		"`", "~/", "./", "..", "#L1", ":", "a", "Z", "9", "_", "-", "+", "ü", "你", "😀", "\u0301", "\xff", "\xe2\x81", currentHead, "User: ", "claude-ref:",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(piece, rapid.String()), 0, 12).Draw(t, "pieces"), "")
		safe, broken := harmless(text)
		if commandAtStart.MatchString(safe) {
			t.Fatalf("%q begins with a command: %q", text, safe)
		}
		if found := mentionInText.FindString(safe); found != "" {
			t.Fatalf("%q has the mention %q: %q", text, found, safe)
		}
		if again, _ := harmless(safe); again != safe {
			t.Fatalf("%q became %q, and that %q", text, safe, again)
		}
		back := withoutMarks(safe)
		if commandAtStart.MatchString(text) {
			back = strings.TrimPrefix(back, currentHead+"\n")
		}
		if back != withoutMarks(text) || broken != strings.Contains(safe, "@"+wordJoiner) {
			t.Fatalf("%q became %q (broken %v), and then %q", text, safe, broken, back)
		}
	})
}

// what the guard has put behind an "@" is no part of the answer, in whatever pieces the
// program repeats it, and however often an answer of before has it. Other marks are.
func TestAnswerWithoutMarks(t *testing.T) {
	const j = wordJoiner
	output := "See @" + j + "/etc and @" + j + j + "a, a" + j + "b, @ " + j + "c, ü@" + j + "\n@" + j + "ASK: of @" + j + "d or @?"
	want := []string{"text See @/etc and @a, a" + j + "b, @ " + j + "c, ü@", question(1, "of @d or @?")}
	for size := 1; size <= len([]rune(output)); size++ {
		a := &items{marker: "@ASK:", marked: true, limit: 4000, step: 7}
		text := &plainText{items: &items{marker: "@ASK:", marked: true, limit: 4000, step: 7}, most: 1 << 20}
		lines := &streamJSON{items: &items{marker: "@ASK:", marked: true, limit: 4000, step: 7}, most: 1 << 20}
		var streamed [3]string
		shows := func(i int, a *items) {
			for _, out := range a.takeDeltas() {
				streamed[i] += out.Delta
			}
		}
		for rest := []rune(output); len(rest) > 0; {
			n := min(size, len(rest))
			a.delta(string(rest[:n]))
			lines.feed(fmt.Appendf(nil, `{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":%s}}}`+"\n", inJSON(string(rest[:n]))))
			rest = rest[n:]
			shows(0, a)
			shows(2, lines.items)
		}
		for rest := []byte(output); len(rest) > 0; {
			n := min(size, len(rest)) // also in the middle of the mark
			text.feed(rest[:n])
			rest = rest[n:]
			shows(1, text.items)
		}
		a.block(output, false)
		lines.feed(fmt.Appendf(nil, `{"type":"assistant","message":{"content":[{"type":"text","text":%s}]}}`+"\n"+`{"type":"result","subtype":"success"}`+"\n", inJSON(output)))
		if !text.end() || !lines.end() {
			t.Fatal("the output has not ended")
		}
		for i, a := range []*items{a, text.items, lines.items} {
			shows(i, a)
			if got := show(a.list); !reflect.DeepEqual(got, want) || streamed[i] != strings.TrimPrefix(want[0], "text ") {
				t.Fatalf("reader %d, pieces of %d: %q, streamed %q", i, size, got, streamed[i])
			}
		}
	}
	bare := &items{limit: 4000}
	bare.block("@"+j+"a", false)
	if got := show(bare.list); got[0] != "text @"+j+"a" {
		t.Errorf("without a guard it is %q", got)
	}
}

func inJSON(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// a program that repeats its prompt is told the same again, and not more marks.
func TestMarksDoNotGrow(t *testing.T) {
	o := shell(`printf '%s' "$2"`)
	m, r := open(t, o), say("@/etc/hostname")
	for range 3 {
		answer, err := ask(context.Background(), m, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := answer.Items[0].Text
		if strings.Contains(text, wordJoiner) || !strings.HasSuffix(text, "@/etc/hostname") { // it was given the marks: TestGuard
			t.Fatalf("the answer is %q", text)
		}
		r.Entries = append(r.Entries,
			conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", Items: answer.Items},
			conversation.Entry{Role: conversation.RoleUser, Task: "t1-s1", Message: "m2-s1", Text: "@/etc/hostname"})
	}
}

// every part of a prompt is harmless: what the summary, the context, the rounds
// and the message hold.
func TestPromptIsHarmless(t *testing.T) {
	p := prompt{
		summary: "[they spoke of @/a]", turns: []turn{{"see @/b", "I saw\n@/c"}}, message: "/config @/d",
		rounds: []round{{"which of @/e?", "@/f"}}, guarded: true,
	}
	d, ok := p.deliver(PromptStdin)
	text := d.text
	if !ok || mentionInText.MatchString(text) || strings.Count(text, "@"+wordJoiner+"/") != 6 {
		t.Errorf("the prompt is\n%s", text)
	}
	if p.guarded = false; strings.ReplaceAll(text, wordJoiner, "") != p.String() {
		t.Errorf("the prompt is\n%s\nwhich is not\n%s", text, p)
	}
	bare := prompt{message: "/config a=b", guarded: true}
	if d, _ := bare.deliver(PromptAuto); d.text != "Current message:\n/config a=b" || d.broken {
		t.Errorf("the first message is sent as %+v", d)
	}
	// A zero byte, which an argument cannot hold, hides nothing.
	for message, want := range map[string]string{"\x00/config a=b": "Current message:\n/config a=b", "a\x00@\x00b @\x00/c": "a@b @" + wordJoiner + "/c"} {
		bare.message = message
		if d, _ := bare.deliver(PromptArg); d.text != want {
			t.Errorf("%q as an argument is %q, want %q", message, d.text, want)
		}
	}
}

// as an argument no prompt is an option of the program, whatever the guard.
func TestPromptIsNoOption(t *testing.T) {
	for _, guarded := range []bool{true, false} {
		p := prompt{message: "--mcp-config={}", guarded: guarded}
		if d, _ := p.deliver(PromptArg); d.text != "Current message:\n--mcp-config={}" {
			t.Errorf("as an argument it is %q", d.text)
		}
		if d, _ := p.deliver(PromptAuto); d.text != p.message || !d.stdin {
			t.Errorf("it is %+v", d)
		}
	}
}

// the guard is on unless the block says otherwise.
func TestGuard(t *testing.T) {
	for guard, want := range map[PromptGuard]string{"": "@" + wordJoiner + "/etc/hostname", GuardClaude: "@" + wordJoiner + "/etc/hostname", GuardNone: "@/etc/hostname"} {
		o := agent("report")
		if guard != "" {
			o.Guard = guard
		}
		r := say("@/etc/hostname")
		if got := told(t, open(t, o), r); got.Args[len(got.Args)-1] != want {
			t.Errorf("guard %q: the agent was told %q", guard, got.Args)
		}
		if r.Entries[0].Text != "@/etc/hostname" {
			t.Errorf("the conversation's text is now %q", r.Entries[0].Text)
		}
	}
}

package chat

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	parley "parley/clients/go"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain ☃ 日本語 👩‍🚀":                        "plain ☃ 日本語 👩‍🚀",
		"\x1b[31mred\x1b[0m":                     "[31mred[0m",
		"\x1b]0;title\x07x":                      "]0;titlex",
		"\u009b31mred\u009d0;t\u009c":            "31mred0;t",
		"a\rb\x08\x7f\x00":                       "ab",
		"a\r\nb\u2028c\u0085d":                   "a\nb\nc\nd",
		"tab\there":                              "tab\there",
		"\u202egnp.exe\u202c\u2066x\u2069\u200f": "gnp.exex",
		"bad \xff\xc3":                           "bad \uFFFD",
		"tag\U000E0041":                          "tag",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) is %q, want %q", in, got, want)
		}
	}
	if got := line("two\nlines\x1b[2J  here"); got != "two lines[2J here" {
		t.Errorf("%q", got)
	}
}

// FuzzClean: whatever comes in, no control character but a line break or tab comes out.
func FuzzClean(f *testing.F) {
	f.Add("\x1b[2J\u009b1m\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		for _, r := range Clean(in) {
			if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Errorf("%q lets %U through", in, r)
			}
		}
	})
}

// asked notes what the model asks for.
type asked struct {
	all []string
	id  string // of what was sent last
}

func (a *asked) note(format string, args ...any) tea.Cmd {
	a.all = append(a.all, fmt.Sprintf(format, args...))
	return nil
}
func (a *asked) say(m parley.Message) tea.Cmd {
	a.id = m.ClientMsgID
	files := ""
	for _, f := range m.Attachments {
		files += " with " + Clean(f.Name)
	}
	return a.note("say %q %s%s", m.Text, m.Question, files)
}
func (a *asked) attach(path string) tea.Cmd { return a.note("attach %s", path) }
func (a *asked) approve(id, q string, yes bool, args string) tea.Cmd {
	a.id = id
	return a.note("approve %s %v %s", q, yes, args)
}
func (a *asked) edit(id, message, text string) tea.Cmd {
	a.id = id
	return a.note("edit %s %q", message, text)
}
func (a *asked) withdraw(message string) tea.Cmd { return a.note("withdraw %s", message) }
func (a *asked) stop() tea.Cmd                   { return a.note("stop") }
func (a *asked) clear() tea.Cmd                  { return a.note("clear") }
func (a *asked) open(session string) tea.Cmd     { return a.note("open %s", session) }
func (a *asked) list() tea.Cmd                   { return a.note("list") }
func (a *asked) follow(session string)           { a.note("follow %s", session) }

// press is a key by its name, or a text that is typed.
func press(keys ...string) []tea.Msg {
	var all []tea.Msg
	for _, k := range keys {
		switch k {
		case "enter":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyEnter})
		case "up":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyUp})
		case "esc":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyEscape})
		case "backspace":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyBackspace})
		case "home":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyHome})
		case "tab":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyTab})
		case "pgup":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyPgUp})
		case "pgdown":
			all = append(all, tea.KeyPressMsg{Code: tea.KeyPgDown})
		case "ctrl+c":
			all = append(all, tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl})
		case "ctrl+u":
			all = append(all, tea.KeyPressMsg{Code: 'u', Mod: tea.ModCtrl})
		default:
			for _, r := range k {
				all = append(all, tea.KeyPressMsg{Code: r, Text: string(r)})
			}
		}
	}
	return all
}

func happens(bodies ...parley.Body) []tea.Msg {
	var all []tea.Msg
	for _, b := range bodies {
		all = append(all, eventMsg(parley.Event{Session: "s1", Task: "t1", Body: b}))
	}
	return all
}

func together(parts ...[]tea.Msg) []tea.Msg {
	var all []tea.Msg
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func accepted(id, text string) *parley.MessageAccepted {
	return &parley.MessageAccepted{Message: id, Author: "ann", Text: text, Disposition: "queued"}
}

// decided is an answer to an approval.
func decided(text string) *parley.MessageAccepted {
	return &parley.MessageAccepted{Message: "m" + text, Author: "ann", Text: text, Disposition: "answered", Question: "q1"}
}

func TestModel(t *testing.T) {
	approval := &parley.Question{ID: "q1", Text: "May it?", Blocking: true,
		Approval: &parley.Approval{Call: "c1", Tool: "mail", Args: []byte(`{"to":"max","text":"all of it"}`)}}
	choices := &parley.Question{ID: "q2", Text: "Which?", Blocking: true, Choices: []string{"red", "green"}}
	loose := &parley.Question{ID: "q3", Text: "By the way?"}
	theirs := &parley.ToolStarted{Call: "c1", Tool: "get_weather", Caller: true}
	result := parley.Question{ID: "q4", Text: "get_weather is yours to run.", Blocking: true, Call: "c1"}
	waits := parley.State{Calls: []parley.OpenCall{{Call: "c1", Tool: "get_weather", Caller: true}}, Questions: []parley.OpenQuestion{{Question: result}}}
	running := &parley.TaskStatus{Task: "t1", NewStatus: "RUNNING"}
	photo := parley.Attachment{Hash: "ab", Name: "a\x1b.png", Type: "image/png", Size: 1234}
	guessed := &parley.PartialResponse{Part: parley.Part{Message: "p1", Text: "It is noon.", InReplyTo: "m1", Guessed: true}}
	unanswered := &parley.MessageResolved{Message: "m1", How: "unanswered"}
	title := "New"
	shown := accepted("m1", "one")
	shown.Attachments = []parley.Attachment{photo}
	for _, test := range []struct {
		name  string
		msgs  []tea.Msg
		asks  string
		shows string // on the screen; | separates
		hides string
		quits bool
	}{
		{"say", press("hi there", "enter"), `say "hi there" `, "", "", false},
		{"wide characters", press("日本語", "backspace", "enter"), `say "日本" `, "", "", false},
		{"paste lines", together([]tea.Msg{tea.PasteMsg{Content: "one\rtwo\r\nthree\nfour\x1b"}}, press("enter")), `say "one\ntwo\nthree\nfour" `, "", "", false},
		{"nothing", press("   ", "enter"), "", "", "", false},
		{"a slash", press("//say x", "enter"), `say "/say x" `, "", "", false},
		{"answer with a key", together(happens(choices), press("2", "enter")), `say "green" q2`, "? Which?|2. green|1 to 2 choose", "", false},
		{"answer in words", together(happens(choices), press("none of these", "enter")), `say "none of these" q2`, "", "", false},
		{"no such choice", together(happens(choices), press("3", "enter")), `say "3" q2`, "", "", false},
		{"a question that waits for nothing", together(happens(loose), press("hi", "enter")), `say "hi" `, "By the way?", "", false},
		{"a program's question is no person's", together(happens(theirs, &result), press("hi", "enter")), `say "hi" `, "get_weather waits for its result", "yours to run", false},
		{"nor is one that was open before", together(happens(&parley.Followed{State: waits}), press("hi", "enter")), `say "hi" `, "", "yours to run", false},
		{"beside a person's", together(happens(theirs, &result, choices), press("2", "enter")), `say "green" q2`, "Which?", "yours to run|1 of 2", false},
		{"approve", together(happens(approval), press("y", "enter")), "approve q1 true ", `mail|"to": "max"|"text": "all of it"`, "", false},
		{"refuse", together(happens(approval), press("n", "enter")), "approve q1 false ", "", "", false},
		{"other arguments", together(happens(approval), press("e", "enter", "ctrl+u", `{"to":"eve"}`, "enter")), `approve q1 true {"to":"eve"}`, "", "", false},
		{"wrong arguments", together(happens(approval), press("e", "enter", "x", "enter")), "", "this is no JSON", "", false},
		{"answered elsewhere", together(happens(choices, &parley.QuestionAnswered{Question: "q2"}), press("2", "enter")), `say "2" `, "", "choose", false},
		{"a letter alone approves nothing", together(happens(approval), press("you should not")), "", "you should not|y Enter approves", "", false},
		{"words to an approval", together(happens(approval), press("note: no", "enter")), `say "note: no" q1`, "", "", false},
		{"no digit alone", together(happens(choices), press("2 of them", "enter")), `say "2 of them" q2`, "", "", false},
		{"typed before the approval", together(press("y"), happens(approval), press("enter", "enter")), "", "begun before the question came", "", false},
		{"typed anew", together(press("y"), happens(approval), press("enter", "backspace", "y", "enter")), "approve q1 true ", "", "", false},
		{"typed before the question", together(press("blue"), happens(choices), press("enter")), "", "begun before the question came|blue", "", false},
		{"and meant for it", together(press("blue"), happens(choices), press("enter", "enter")), `say "blue" q2`, "", "", false},
		{"and no answer", together(press("/say blue"), happens(choices), press("enter")), `say "blue" `, "", "", false},
		{"for the one that was answered", together(happens(choices, approval), press("1"), happens(&parley.QuestionAnswered{Question: "q2"}), press("enter")), "", "begun before", "", false},
		{"the oldest, by name", together(happens(choices, approval), press("2", "enter")), `say "green" q2`, "1 of 2, Tab chooses: " + plain + "Which?", "", false},
		{"the next one", together(happens(choices, approval), press("tab", "n", "enter")), "approve q1 false ", "2 of 2, Tab chooses: " + plain + "May it? mail", "", false},
		{"and round again", together(happens(choices, approval), press("tab", "tab", "1", "enter")), `say "red" q2`, "", "", false},
		{"an answer to one that waits for nothing", together(happens(loose), press("tab", "hi", "enter", "tab")), `say "hi" q3`, "Tab, then", "", false},
		{"arguments for a closed one", together(happens(approval), press("e", "enter"), happens(&parley.QuestionClosed{Question: "q1"}), press("enter")), "", "has its answer", "all of it\",\"", false},
		{"queue", happens(accepted("m1", "one"), accepted("m2", "two")), "", "waits 1. one|waits 2. two", "", false},
		{"read", happens(accepted("m1", "one"), &parley.StepStarted{Agent: "a", Read: []string{"m1"}}), "", "one", "waits", false},
		{"edit with up", together(happens(accepted("m1", "one")), press("up", "!", "enter")), `edit m1 "one!"`, "", "", false},
		{"edit by number", together(happens(accepted("m1", "one"), accepted("m2", "two")), press("/edit 2 drei", "enter")), `edit m2 "drei"`, "", "", false},
		{"withdraw", together(happens(accepted("m1", "one")), press("/withdraw 1", "enter")), "withdraw m1", "", "", false},
		{"withdraw nothing", press("/withdraw 1", "enter"), "", "no message with this number waits", "", false},
		{"stop, then leave", together(happens(running), press("ctrl+c", "ctrl+c")), "stop", "", "", true},
		{"leave", press("ctrl+c", "ctrl+c"), "", "", "", true},
		{"leave as work begins", together(press("ctrl+c"), happens(running), press("ctrl+c")), "", "", "", true},
		{"the stop found nothing", together(happens(running), press("ctrl+c"), []tea.Msg{noticeMsg("nothing runs")}), "stop", "Ctrl+C again leaves; nothing runs", "", false},
		{"not yet", press("ctrl+c", "x", "ctrl+c"), "", "Ctrl+C again leaves", "", false},
		{"commands", press("/new", "enter", "/sessions", "enter", "/stop", "enter", "/clear", "enter", "/open abc", "enter"), "open , list, stop, clear, open abc", "", "", false},
		{"open by number", together([]tea.Msg{listMsg{{Session: "s7", Title: "T\x1b[2J"}}}, press("/open 1", "enter")), "open s7", "T[2J", "\x1b[2J", false},
		{"no such command", press("/dance", "enter"), "", "there is no command /dance", "", false},
		{"quit", press("/quit", "enter"), "", "", "", true},
		{"streams", happens(running, &parley.Delta{Draft: "1.1.0", Text: "Hel"}, &parley.Delta{Draft: "1.1.0", At: 3, Text: "lo"}), "", "Hello▌|Ctrl+C stops", "", false},
		{"the answer takes the draft's place", happens(&parley.Delta{Draft: "1.1.0", Text: "Hel"}, &parley.Response{Part: parley.Part{Text: "Hello", Draft: "1.1.0"}}), "", "Hello", "▌", false},
		{"markdown", happens(&parley.Response{Part: parley.Part{Text: "# Title\n- a **b**\n```go\nx := 1\n```"}}), "", bold + "Title|• a " + bold + "b|x := 1", "#|```|**", false},
		{"no command of the model's", happens(&parley.Response{Part: parley.Part{Text: "\x1b]52;c;aGk=\x07\u202eevil\x1b[2J"}}), "", "evil", "\x1b]|\u202e|\x1b[2J|\x07", false},
		{"lost", happens(&parley.Interrupted{Err: fmt.Errorf("gone")}), "", "connecting again", "", false},
		{"found", happens(&parley.Interrupted{Err: fmt.Errorf("gone")}, &parley.Followed{Again: true, Resumed: true}), "", "/help", "connecting", false},
		{"restored", happens(accepted("m1", "old"), &parley.Followed{Again: true}), "", "shown anew", "old", false},
		{"attach", press("/attach my photo.png", "enter"), "attach my photo.png", "uploading", "", false},
		{"attached", together(press("/attach a.png", "enter"), []tea.Msg{attachedMsg{photo}}), "attach a.png", "[file a.png", "uploading", false},
		{"an approval in words", happens(decided(`{"approve":true}`), decided(`{"approve":false}`), decided(`{"approve":true,"args":{"n":9007199254740993}}`), decided("yes"), accepted("m9", `{"approve":false}`)), "",
			"(approved)|(refused)|(approved with other arguments) {\"n\":9007199254740993}|yes", `"approve":true`, false},
		{"say with a file", together([]tea.Msg{attachedMsg{photo}}, press("look", "enter", "and", "enter")), `say "look"  with a.png, say "and" `, "", "\n  [file", false},
		{"a file that waits", []tea.Msg{attachedMsg{photo}}, "", "[file a.png, 1.2 kB]", "\x1b.png", false},
		{"a file alone", together([]tea.Msg{attachedMsg{photo}}, press("enter")), `say ""  with a.png`, "", "\n  [file", false},
		{"no file after all", together([]tea.Msg{attachedMsg{photo}}, press("esc", "enter")), "", "", "[file", false},
		{"a file is no answer", together(happens(choices), []tea.Msg{attachedMsg{photo}}, press("look", "enter")), `say "look"  with a.png`, "", "", false},
		{"files of messages", happens(shown, &parley.MessageEdited{Message: "m1", Text: "two"}), "", "two|[file a.png, 1.2 kB]", "one|\x1b.png", false},
		{"typed while it opens", together(press("wo"), []tea.Msg{openedMsg("s2")}, press("rds", "enter")), `follow s2, say "words" `, "", "", false},
		{"the session is made", []tea.Msg{openedMsg("a new session 2"), madeMsg{"a new session 2", "s1"}, happens(accepted("m1", "here"))[0]}, "follow a new session 2, follow s1", "here", "", false},
		{"another one is made", []tea.Msg{madeMsg{"a new session 2", "s2"}, happens(accepted("m1", "here"))[0]}, "", "here", "", false},
		{"its title", happens(&parley.Followed{State: parley.State{Title: "T\x1b[2J"}}), "", "T[2J; /help", "\x1b[2J", false},
		{"another title", happens(&parley.Followed{State: parley.State{Title: "Old"}}, &parley.SessionUpdated{Title: &title}), "", "── New; /help", "Old", false},
		{"no answer", happens(accepted("m1", "one"), unanswered), "", "the message got no answer", "", false},
		{"an answer that nothing proves", happens(accepted("m1", "one"), guessed, unanswered), "", "It is noon.", "got no answer", false},
		{"that comes behind the receipt", happens(accepted("m1", "one"), unanswered, guessed), "", "It is noon.", "got no answer", false},
		{"that was shown before it became the last", happens(accepted("m1", "one"), &parley.Response{Part: guessed.Part, Promoted: true}, unanswered), "", "It is noon.", "got no answer", false},
		{"whose message is older than what is shown", happens(unanswered), "", "", "got no answer", false},
		{"another session's", []tea.Msg{eventMsg(parley.Event{Session: "s0", Body: accepted("m1", "old")})}, "", "", "old", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &asked{}
			var m tea.Model = newModel(a, "s1")
			quits := false
			for _, msg := range test.msgs {
				var cmd tea.Cmd
				if m, cmd = m.Update(msg); cmd != nil {
					_, quits = cmd().(tea.QuitMsg)
				}
			}
			if got := strings.Join(a.all, ", "); got != test.asks || quits != test.quits {
				t.Errorf("it asks for %s (quits: %v), want %s", got, quits, test.asks)
			}
			screen := strings.Join(m.(model).screen(), "\n")
			for part := range strings.SplitSeq(test.shows, "|") {
				if !strings.Contains(screen, part) {
					t.Errorf("%q is not on\n%s", part, screen)
				}
			}
			for part := range strings.SplitSeq(test.hides, "|") {
				if part != "" && strings.Contains(screen, part) {
					t.Errorf("%q is on\n%s", part, screen)
				}
			}
		})
	}
}

// The arguments that are edited are the bytes that came: numbers of any length, the
// order of the keys, every character; unchanged ones are not sent at all.
func TestEditsArgumentsAsTheyAre(t *testing.T) {
	args := `{"id": 9007199254740993, "to": "<prod>", "b": 12345678901234567890, "a": [1.10], "x": "\u202e` + "\u202e\u2028" + `"}`
	for _, test := range []struct{ name, args, typed, asks, shows string }{
		{"unchanged", args, "", "approve q1 true ", ""},
		{"changed", args, `,"n":1}`, `approve q1 true {"id":9007199254740993,"to":"<prod>","b":12345678901234567890,"a":[1.10],"x":"\u202e\u202e\u2028","n":1}`, ""},
		{"kept back", `{"redacted":true}`, "", "", "can only be approved or refused"},
		{"cut", `"{\"to\":\"ma…"`, "", "", "can only be approved or refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &asked{}
			var m tea.Model = newModel(a, "s1")
			q := &parley.Question{ID: "q1", Text: "May it?", Blocking: true, Approval: &parley.Approval{Tool: "ops", Args: []byte(test.args)}}
			msgs := together(happens(q), press("e", "enter"))
			if test.typed != "" {
				msgs = append(msgs, press("backspace", test.typed)...)
			}
			for _, msg := range msgs {
				m, _ = m.Update(msg)
			}
			screen := strings.Join(m.(model).screen(), "\n")
			if !strings.Contains(screen, test.shows) {
				t.Errorf("%q is not on\n%s", test.shows, screen)
			}
			m.Update(press("enter")[0])
			if got := strings.Join(a.all, ", "); got != test.asks {
				t.Errorf("it asks for %s, want %s", got, test.asks)
			}
		})
	}
}

// The screen has as many lines as the terminal, whatever its size, and none is wider.
func TestModelFitsTheTerminal(t *testing.T) {
	var m tea.Model = newModel(&asked{}, "s1")
	for i := range 30 {
		m, _ = m.Update(happens(accepted(fmt.Sprint("m", i), strings.Repeat("日本語 words ", i)))[0])
	}
	for _, size := range []struct{ width, height int }{{80, 24}, {20, 6}, {200, 60}, {10, 5}, {1, 1}} {
		m, _ = m.Update(tea.WindowSizeMsg{Width: size.width, Height: size.height})
		lines := m.(model).screen()
		if len(lines) != m.(model).height {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, l := range lines {
			if w := width(l); w > m.(model).width {
				t.Errorf("%v: a line of %d: %q", size, w, l)
			}
		}
	}
}

// What was scrolled to stays where it is while more comes, also when a draft becomes a
// row and the width changes; the top is the top, and Page Down comes back from it.
func TestScrollingHolds(t *testing.T) {
	var m tea.Model = newModel(&asked{}, "s1")
	do := func(msgs ...tea.Msg) string {
		for _, msg := range msgs {
			m, _ = m.Update(msg)
		}
		return m.(model).screen()[0]
	}
	for i := range 60 {
		do(happens(&parley.Response{Part: parley.Part{Text: fmt.Sprint("line ", i)}})...)
	}
	do(happens(&parley.Delta{Draft: "1.1.0", Text: "a\n"})...)
	held := do(press("pgup")...)
	for i := range 50 {
		if top := do(happens(&parley.Delta{Draft: "1.1.0", At: 2 + 2*i, Text: "b\n"})...); top != held {
			t.Fatalf("%q moved to %q while an answer was written", held, top)
		}
	}
	if top := do(happens(&parley.Response{Part: parley.Part{Draft: "1.1.0", Text: strings.Repeat("b\n", 50)}})...); top != held {
		t.Errorf("%q moved to %q with the answer", held, top)
	}
	if top := do(tea.WindowSizeMsg{Width: 40, Height: 12}); top != held {
		t.Errorf("%q moved to %q with the window", held, top)
	}
	for range 60 {
		do(press("pgup")...)
	}
	if top := do(); top != "line 0" {
		t.Errorf("the top is %q", top)
	}
	if top := do(press("pgdown")...); top != "line 3" {
		t.Errorf("one page below the top is %q", top)
	}
	for range 60 {
		do(press("pgdown")...)
	}
	do(happens(&parley.Response{Part: parley.Part{Text: "the newest"}})...)
	if screen := strings.Join(m.(model).screen(), "\n"); !strings.Contains(screen, "the newest") {
		t.Errorf("the end does not follow what comes: %s", screen)
	}
}

// A call is approved by a key when all of its arguments have been on the screen.
func TestApprovesWhatWasShown(t *testing.T) {
	args := make([]string, 30)
	for i := range args {
		args[i] = fmt.Sprintf(`"key %d":"value %d"`, i, i)
	}
	long := &parley.Question{ID: "q1", Text: "May it?", Blocking: true,
		Approval: &parley.Approval{Tool: "mail", Args: []byte("{" + strings.Join(args, ",") + "}")}}
	for _, test := range []struct {
		name string
		keys []tea.Msg
		asks string
	}{
		{"y", press("y", "enter"), ""},
		{"yes", press("yes", "enter"), ""},
		{"its number", press("1", "enter"), ""},
		{"other words", press("ja", "enter"), ""},
		{"its arguments", press("e", "enter", "enter"), ""},
		{"twice", press("y", "enter", "y", "enter"), ""},
		{"refused", press("n", "enter"), "approve q1 false "},
		{"only the end", press("pgup", "y", "enter"), ""},
		{"read from its beginning", press("y", "enter", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "pgdown", "y", "enter"), "approve q1 true "},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &asked{}
			var m tea.Model = newModel(a, "s1")
			for _, msg := range together([]tea.Msg{tea.WindowSizeMsg{Width: 60, Height: 12}}, happens(accepted("m1", "do it"), long), test.keys) {
				m, _ = m.Update(msg)
			}
			if got := strings.Join(a.all, ", "); got != test.asks {
				t.Errorf("it asks for %s, want %s\n%s", got, test.asks, strings.Join(m.(model).screen(), "\n"))
			}
		})
	}
}

// at is an event with its place in the log and its task.
func at(seq uint64, task string, body parley.Body) tea.Msg {
	return eventMsg(parley.Event{Session: "s1", Seq: seq, Task: task, Body: body})
}

// queue is what the model shows as waiting.
func queue(m tea.Model) string {
	var all []string
	shown := m.(model)
	for _, l := range shown.below() {
		if _, text, waits := strings.Cut(strings.TrimSuffix(l, plain), "  waits "); waits {
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// What waits is in the server's order, also when somebody moves it.
func TestQueueIsTheServers(t *testing.T) {
	waits := func(id, task string) tea.Msg { return at(0, task, accepted(id, id)) }
	moved := func(id, before string) tea.Msg { return at(0, "", &parley.MessageMoved{Message: id, Before: before}) }
	begin := []tea.Msg{at(0, "", &parley.TaskStatus{Task: "t1", NewStatus: "RUNNING"}), waits("a", "t1"), waits("b", "t2"), waits("c", "t3"), waits("d", "t3")}
	for _, test := range []struct {
		name string
		msgs []tea.Msg
		want string
	}{
		{"as they came", nil, "1. a 2. b 3. c 4. d"},
		{"one for the task that runs", []tea.Msg{waits("e", "t1")}, "1. a 2. e 3. b 4. c 5. d"},
		{"the first for it", []tea.Msg{at(0, "", &parley.MessageWithdrawn{Message: "a"}), waits("e", "t1")}, "1. e 2. b 3. c 4. d"},
		{"one more for a task that waits", []tea.Msg{waits("e", "t2")}, "1. a 2. b 3. e 4. c 5. d"},
		{"to the front, with its task", []tea.Msg{moved("d", "")}, "1. a 2. d 3. c 4. b"},
		{"before another task", []tea.Msg{moved("c", "b")}, "1. a 2. c 3. d 4. b"},
		{"in its task", []tea.Msg{moved("d", "c")}, "1. a 2. b 3. d 4. c"},
		{"in the task that runs", []tea.Msg{waits("e", "t1"), moved("e", "")}, "1. e 2. a 3. b 4. c 5. d"},
		{"one that does not wait", []tea.Msg{moved("x", "")}, "1. a 2. b 3. c 4. d"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var m tea.Model = newModel(&asked{}, "s1")
			for _, msg := range together(begin, test.msgs) {
				m, _ = m.Update(msg)
			}
			if got := queue(m); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// The state of a follow has what is open; the events up to it are history. It has only
// beginnings of texts: what came whole stays whole, and no beginning is edited.
func TestFollowsAgain(t *testing.T) {
	long := strings.Repeat("words ", 100)
	state := parley.State{
		Inbox:     []parley.Waiting{{Message: "m2", Excerpt: "second…"}, {Message: "m1", Excerpt: long[:60] + "…"}},
		Questions: []parley.OpenQuestion{{Question: parley.Question{ID: "q1", Text: "Which?", Blocking: true}}, {Question: parley.Question{ID: "q0", Text: "Older?"}}},
	}
	history := []tea.Msg{at(4, "t1", accepted("m1", long)), at(5, "t1", accepted("m3", "read")), at(6, "t1", &parley.StepStarted{Read: []string{"m3"}}),
		at(7, "t1", &parley.Question{ID: "q2", Text: "Gone?", Blocking: true}), at(8, "t1", &parley.Question{ID: "q1", Text: "Which?", Blocking: true}),
		at(9, "t1", &parley.QuestionClosed{Question: "q2"}), at(10, "t1", accepted("m9", "the end of the history")), at(11, "", &parley.Synced{Head: 10})}
	a := &asked{}
	var m tea.Model = newModel(a, "s1")
	do := func(msgs ...tea.Msg) {
		for _, msg := range msgs {
			m, _ = m.Update(msg)
		}
	}
	check := func(when, waits string, questions int) {
		t.Helper()
		if got := queue(m); got != waits || len(m.(model).questions) != questions {
			t.Errorf("%s: %s and %d questions, want %s and %d", when, got, len(m.(model).questions), waits, questions)
		}
	}
	whole := "1. second… 2. " + ansi.Truncate(strings.TrimSpace(long), 80-len("  waits 2. "), "…")
	do(tea.WindowSizeMsg{Width: 80, Height: 60}, at(0, "", &parley.Followed{Head: 10, State: state}))
	do(history...)
	check("first", whole, 2)
	if screen := strings.Join(m.(model).screen(), "\n"); strings.Index(screen, "? Which?") < strings.Index(screen, "words words") || strings.Index(screen, "? Older?") < strings.Index(screen, "the end of") {
		t.Errorf("questions do not stand where they were asked: %s", screen)
	}
	do(at(0, "", &parley.Interrupted{}), at(0, "", &parley.Followed{Head: 10, Again: true, Resumed: true, State: state}), at(0, "", &parley.Synced{Head: 10}))
	check("again", whole, 2)
	do(press("up", "!", "enter")...)
	do(press("/withdraw 2", "enter")...)
	state.Inbox = state.Inbox[:1]
	do(at(0, "", &parley.Followed{Head: 12, Again: true, Resumed: true, State: state}))
	do(press("up", "!", "enter")...)
	if got, want := strings.Join(a.all, ", "), fmt.Sprintf(`edit m1 %q, withdraw m1, say "!" q1`, strings.TrimSpace(long+"!")); got != want {
		t.Errorf("it asks for %s, want %s", got, want)
	}
	do(press("up")...)
	if screen := strings.Join(m.(model).screen(), "\n"); !strings.Contains(screen, "only the beginning of this text is known here") {
		t.Errorf("a beginning is edited: %s", screen)
	}
}

// A part that becomes the last one of its task changes its row.
func TestShowsAPartOnce(t *testing.T) {
	var m tea.Model = newModel(&asked{}, "s1")
	for _, msg := range happens(&parley.PartialResponse{Part: parley.Part{Message: "p1", Text: "only this"}}, accepted("m2", "between"),
		&parley.Response{Part: parley.Part{Message: "p1", Text: "only this"}, Promoted: true}) {
		m, _ = m.Update(msg)
	}
	if screen := strings.Join(m.(model).screen(), "\n"); strings.Count(screen, "only this") != 1 {
		t.Error(screen)
	}
}

// What was sent is on the screen until the server has it; what it refuses comes back to
// be changed, with the whole reason.
func TestWhatIsNotSent(t *testing.T) {
	approval := &parley.Question{ID: "q1", Text: "May it?", Blocking: true, Approval: &parley.Approval{Tool: "mail", Args: []byte(`{"to":"max"}`)}}
	photo := parley.Attachment{Hash: "ab", Name: "a\x1b.png", Type: "image/png", Size: 1234}
	reason := "the edited arguments do not fit the tool: " + strings.Repeat("to is no address, ", 10) + "so it is"
	said := accepted("m1", "my words")
	for _, test := range []struct {
		name  string
		msgs  []tea.Msg
		why   string // of the server's refusal; "-" = it has not answered yet
		then  []tea.Msg
		asks  string // the last thing
		shows string
		hides string
	}{
		{"waits", press("my words", "enter"), "-", nil, `say "my words" `, "not sent yet: my words", ""},
		{"is there", press("my words", "enter"), "", nil, `say "my words" `, "", "my words"},
		{"in another session", press("my words", "enter"), "-", []tea.Msg{openedMsg("s2")}, "follow s2", "not sent yet: my words", ""},
		{"leaving", press("my words", "enter", "ctrl+c"), "-", []tea.Msg{connectionMsg{}}, `say "my words" `, "Ctrl+C again leaves; no connection|not sent yet", ""},
		{"refused", press("my words", "enter"), "no\x1b", press("!", "enter"), `say "my words!" `, "not sent: no", "\x1b["},
		{"refused with a file", together([]tea.Msg{attachedMsg{photo}}, press("my words", "enter")), reason, press("enter"), `say "my words"  with a.png`, "so it is", ""},
		{"refused while something else is typed", press("my words", "enter", "other"), "no", press("enter"), `say "other" `, "not sent: no|my words", ""},
		{"arguments", together(happens(approval), press("e", "enter", "backspace", `,"n":1}`, "enter")), reason, press("backspace", `,"m":2}`, "enter"), `approve q1 true {"to":"max","n":1,"m":2}`, "so it is", ""},
		{"arguments again", together(happens(approval), press("e", "enter", "backspace", `,"n":1}`, "enter")), reason, press("enter"), `approve q1 true {"to":"max","n":1}`, "", ""},
		{"arguments of a closed question", together(happens(approval), press("e", "enter", "backspace", `,"n":1}`, "enter"), happens(&parley.QuestionClosed{Question: "q1"})), "closed", press("enter"), `approve q1 true {"to":"max","n":1}`, "not sent: closed", "not sent yet"},
		{"an edit", together(happens(said), press("up", "!", "enter")), "no", press("!", "enter"), `edit m1 "my words!!"`, "not sent: no", ""},
		{"an edit of what was read", together(happens(said), press("up", "!", "enter"), happens(&parley.StepStarted{Read: []string{"m1"}})), "read", press("enter"), `say "my words!" `, "not sent: read", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &asked{}
			var m tea.Model = newModel(a, "s1")
			for _, msg := range test.msgs {
				m, _ = m.Update(msg)
			}
			if test.why != "-" {
				m, _ = m.Update(sentMsg{a.id, test.why})
			}
			for _, msg := range test.then {
				m, _ = m.Update(msg)
			}
			if got := a.all[len(a.all)-1]; got != test.asks {
				t.Errorf("it asks for %s, want %s", got, test.asks)
			}
			screen := strings.Join(m.(model).screen(), "\n")
			for part := range strings.SplitSeq(test.shows, "|") {
				if !strings.Contains(strings.ReplaceAll(screen, "\n", " "), part) {
					t.Errorf("%q is not on\n%s", part, screen)
				}
			}
			if test.hides != "" && strings.Contains(strings.NewReplacer(bold, "", dim, "", plain, "", "\x1b[7m", "").Replace(screen), test.hides) {
				t.Errorf("%q is on\n%s", test.hides, screen)
			}
		})
	}
	a := &asked{} // the event may come before the answer
	var m tea.Model = newModel(a, "s1")
	for _, msg := range press("my words", "enter") {
		m, _ = m.Update(msg)
	}
	said.ClientMsgID = a.id
	if m, _ = m.Update(happens(said)[0]); len(m.(model).outgoing) > 0 {
		t.Error("what is in the log is still shown as not sent")
	}
}

func TestHome(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	for path, want := range map[string]string{"~/a.png": "/home/ann/a.png", "~": "/home/ann", "~bob/a": "~bob/a", "a~/b": "a~/b"} {
		if got := home(path); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// A draft is shown as the text of its lines is, however it comes.
func TestDraftsAreShownAsTheirText(t *testing.T) {
	text := "# Head\nwords and words and more words\n```go\n# no head\n```\n- **b**\r\nx\u2028y\nend"
	want := strings.Join(wrap(markdown(Clean(text))+"▌", 12), "\n")
	var w writing
	for i := range text {
		w.show(text[:i], 12)
	}
	for range 2 { // what was shown is shown again
		if got := strings.Join(w.show(text, 12), "\n"); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	if got := strings.Join(w.show("other", 12), "\n"); got != "other▌" {
		t.Errorf("%q", got)
	}
}

// A long conversation is not wrapped anew for each word that comes.
func TestRowsAreWrappedOnce(t *testing.T) {
	var m tea.Model = newModel(&asked{}, "s1")
	for range 100 {
		m, _ = m.Update(happens(&parley.Response{Part: parley.Part{Text: strings.Repeat("ten words ", 1000)}})[0])
	}
	m, _ = m.Update(happens(&parley.Delta{Draft: "1.1.0", Text: strings.Repeat("words\n", 10000)})[0])
	_ = m.View()
	at := 60000
	if n := testing.AllocsPerRun(20, func() {
		m, _ = m.Update(happens(&parley.Delta{Draft: "1.1.0", At: at, Text: "word "})[0])
		at += 5
		_ = m.View()
	}); n > 300 {
		t.Errorf("%v allocations for a word", n)
	}
}

// The cursor is on the screen, wherever it is in a long text.
func TestTheCursorIsOnTheScreen(t *testing.T) {
	var m tea.Model = newModel(&asked{}, "s1")
	for _, msg := range together([]tea.Msg{tea.WindowSizeMsg{Width: 40, Height: 12}, tea.PasteMsg{Content: strings.Repeat("many words\n", 40)}}, press("x", "home")) {
		m, _ = m.Update(msg)
		if screen := strings.Join(m.(model).screen(), "\n"); strings.Count(screen, cursor) != 1 {
			t.Errorf("%v: %q", msg, screen)
		}
	}
}

// A part that becomes the last one of its task is printed once; a last part that was
// never shown here is printed too.
func TestPlainPrintsAPartOnce(t *testing.T) {
	var out strings.Builder
	printed := make(map[string]bool)
	for _, b := range []parley.Body{
		&parley.PartialResponse{Part: parley.Part{Message: "p1", Text: "once"}},
		&parley.Response{Part: parley.Part{Message: "p1", Text: "once"}, Promoted: true},
		&parley.Response{Part: parley.Part{Message: "p2", Text: "from before"}, Promoted: true},
	} {
		printPlain(Options{Out: &out}, parley.Event{Body: b}, printed)
	}
	if got := out.String(); got != "once\nfrom before\n" {
		t.Errorf("%q", got)
	}
}

// What is shown as the reply to a message counts as its answer, also where nothing proves it.
func TestWhatIsNoAnswer(t *testing.T) {
	receipt := parley.Receipt{Message: "m1", Task: "t1"}
	guessed := &parley.PartialResponse{Part: parley.Part{Message: "p1", Text: "It is noon.", InReplyTo: "m1", Guessed: true}}
	other := &parley.PartialResponse{Part: parley.Part{Message: "p1", Text: "It is noon.", InReplyTo: "m0", Guessed: true}}
	promoted := &parley.Response{Part: guessed.Part, Promoted: true}
	unanswered := &parley.MessageResolved{Message: "m1", How: "unanswered"}
	ends := &parley.TaskStatus{Task: "t1", NewStatus: "COMPLETE"}
	for _, test := range []struct {
		name   string
		before []parley.Body // the receipt of the command
		after  []parley.Body
		code   int
		why    string
	}{
		{"a guess", nil, []parley.Body{guessed, unanswered}, Answered, ""},
		{"behind the receipt", nil, []parley.Body{unanswered, guessed}, Answered, ""},
		{"a part that becomes the last one", nil, []parley.Body{promoted, unanswered}, Answered, ""},
		{"before the command has its answer", []parley.Body{guessed, unanswered, ends}, nil, Answered, ""},
		{"as its work ends", []parley.Body{unanswered}, []parley.Body{guessed}, Answered, ""},
		{"none", nil, []parley.Body{unanswered, ends}, Failed, "the message got no answer"},
		{"none, before the command has its answer", []parley.Body{unanswered, ends}, nil, Failed, "the message got no answer"},
		{"one of another message", nil, []parley.Body{other, unanswered, ends}, Failed, "the message got no answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			turns := newTurns()
			for _, b := range test.before {
				turns.apply(parley.Event{Body: b})
			}
			turns.sent(receipt)
			for _, b := range test.after {
				if turns.done() {
					t.Errorf("it is done before %T", b)
				}
				turns.apply(parley.Event{Body: b})
			}
			if !turns.done() || turns.code() != test.code || turns.why != test.why {
				t.Errorf("done: %v, code %d, %q; want code %d, %q", turns.done(), turns.code(), turns.why, test.code, test.why)
			}
		})
	}
}

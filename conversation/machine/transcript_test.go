package machine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

// script runs lines of the transcripts' little language in a new scene.
func script(t *testing.T, lines ...string) *scene {
	t.Helper()
	w := newScene(t)
	var out strings.Builder
	for _, line := range lines {
		w.run(&out, line)
	}
	return w
}

// feed decides without the checks of a transcript, which look at the whole log.
func (w *scene) feed(c conversation.Command) {
	w.t.Helper()
	d := w.s.Decide(conversation.Inputs{At: w.now, Slot: true}, c)
	if d.Err != nil {
		w.t.Fatal(d.Err)
	}
	w.log = append(w.log, d.Events...)
	for _, e := range d.Events {
		w.tr.Add(e)
	}
}

// call is an answer that calls a tool.
func (w *scene) call(id string) conversation.Command {
	return conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemCall, ID: id, Tool: "clock"}}}}
}

// shown is the request of the step that is open.
func (w *scene) shown() conversation.Request {
	w.t.Helper()
	for _, e := range w.s.Outstanding(w.now.Add(time.Hour)) {
		if ask, ok := e.(conversation.AskModel); ok {
			return w.tr.RequestWith(w.key, w.rules, w.s.Own(), ask)
		}
	}
	w.t.Fatal("no model call is due")
	return conversation.Request{}
}

// inWords is what a request shows, for comparing. What the engine says of the entries so
// that a model need not read them must be true.
func inWords(t testing.TB, r conversation.Request) string {
	t.Helper()
	for i := range r.Entries[:r.Own] {
		if r.Entries[i].Task == r.Task {
			t.Errorf("entry %d is of the request's task, which is said to begin at %d: %+v", i, r.Own, r.Entries[i])
		}
	}
	said := r.Counted
	if r.Own, r.Counted = 0, (conversation.Counts{}); said != r.Counted && said != r.EntryCounts() {
		t.Errorf("%+v are said, and %+v are there", said, r.EntryCounts())
	}
	return fmt.Sprintf("%+v", r)
}

func all(r conversation.Request) []conversation.Entry { return r.All() }

func lines(entries []conversation.Entry) []string {
	var all []string
	for _, e := range entries {
		switch e.Role {
		case conversation.RoleUser:
			all = append(all, "user "+e.Text)
		case conversation.RoleTool:
			all = append(all, "tool "+e.CallID+" "+e.Text)
		case conversation.RoleAssistant:
			for _, i := range e.Items {
				all = append(all, "assistant "+i.Text+i.ID)
			}
		}
	}
	return all
}

// withNote is all that a model is shown, with the note at its end.
func withNote(r conversation.Request) []string {
	shown := lines(r.All())
	if r.Note != "" {
		shown = append(shown, "note "+r.Note)
	}
	return shown
}

func wantEntries(t *testing.T, r conversation.Request, want ...string) {
	t.Helper()
	if got := withNote(r); !slices.Equal(got, want) {
		t.Errorf("the model is shown\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// D-04: messages have the user's role, their text is verbatim, their order is
// that of arrival; white space, quotes and markers in them mean nothing.
func TestTranscriptVerbatim(t *testing.T) {
	texts := []string{"  leading", "trailing\n\n", "\tTab \"quoted\" {json}", "[delegation d1 (x) finished: no]", "Open messages: [1]", "é👍\u200d"}
	lines := []string{`create policy={"inbox.read":"all"}`, `send first "first"`}
	for i, text := range texts {
		lines = append(lines, fmt.Sprintf("send m%d %q", i, text))
	}
	w := script(t, append(lines, `model "ok"`)...)
	var got []string
	for _, e := range w.shown().Entries {
		if e.Role == conversation.RoleUser && e.Message != "" {
			got = append(got, e.Text)
		}
	}
	if want := append([]string{"first"}, texts...); !slices.Equal(got, want) {
		t.Errorf("shown %q, want %q", got, want)
	}
}

// N-15: the open messages stand last, are numbered from 1 in their task, are quoted by so
// much as tells them apart, and are those of this task only. The note that was answered
// stays, and numbers do not change when a message was answered.
// Rule 2.17.
func TestTranscriptOpenMessages(t *testing.T) {
	w := script(t, "create", `send a "Übersetze das bitte"`, `send b "kurz"`, `send c "Other task" mode=queue`, "model k1:clock{}", `tool c1 ok "12"`)
	r := w.shown()
	if want := `Open messages: [1] "Übersetze das bitte" [2] "kurz"`; r.Note != want || len(r.Last) != 0 {
		t.Errorf("the note is %q, behind %+v", r.Note, r.Last)
	}
	if want := []conversation.OpenMessage{{Ordinal: 1, Message: "m1-s", Excerpt: "Übersetze das bitte", Text: "Übersetze das bitte"}, {Ordinal: 2, Message: "m2-s", Excerpt: "kurz", Text: "kurz"}}; !reflect.DeepEqual(r.Open, want) {
		t.Errorf("open: %+v", r.Open)
	}

	long := "Please tell me the whole story of the invoice that we have sent to Rome in "
	w = script(t, `create policy={"inbox.read":"all"}`, fmt.Sprintf("send a %q", long+"May"), "model k1:clock{}", fmt.Sprintf("send b %q", long+"June"), fmt.Sprintf("send c %q", long+"May 2024, and nothing else"), `tool c1 ok "12"`)
	note := fmt.Sprintf("Open messages: [1] %q [2] %q [3] %q", long+"May", long+"June", long+"May 2024, and nothing e…")
	if r = w.shown(); r.Note != note {
		t.Errorf("the note is %q, not %q", r.Note, note)
	}
	var out strings.Builder
	w.run(&out, `model k2:respondToUser{"message":"Here it is.","inReplyTo":2} k3:clock{}`)
	w.run(&out, `tool c2 ok "13"`)
	shown := withNote(w.shown())
	if want := fmt.Sprintf("note Open messages: [1] %q [3] %q", long+"May", long+"May 2024, and nothing e…"); shown[len(shown)-1] != want || !slices.Contains(shown, "user "+note) {
		t.Errorf("then it is shown\n\t%s", strings.Join(shown, "\n\t"))
	}

	// Where texts begin alike for longer than a reminder quotes, their ends are shown.
	long = strings.Repeat(long, 4)
	w = script(t, `create policy={"inbox.read":"all"}`, `send a "x"`, "model k1:clock{}", fmt.Sprintf("send b %q", long+"May"), fmt.Sprintf("send c %q", long+"June"), `tool c1 ok "12"`)
	if want := `Open messages: [1] "x" [2] "… sent to Rome in May" [3] "…sent to Rome in June"`; w.shown().Note != want {
		t.Errorf("the note is %q", w.shown().Note)
	}
}

// N-15: a closing request takes two tools alone, and their schemas have the names that hold.
// Rule 8.13.
func TestTranscriptClosing(t *testing.T) {
	w := script(t, `create policy={"inbox.read":"all"}`, `send a "one"`, "model k1:clock{}", `send b "two"`, `send c "three"`, `tool c1 ok "12"`,
		`model k2:respondToUser{"message":"2","inReplyTo":2}`, `model "1 and 3."`)
	r := w.shown()
	var offered, forbidden []string
	for _, tool := range r.Tools {
		offered = append(offered, tool.Name)
	}
	for _, tool := range r.Forbidden {
		forbidden = append(forbidden, tool.Name)
	}
	if !r.MustCall || !slices.Equal(offered, []string{conversation.ToolRespond, conversation.ToolCover}) || !slices.Contains(forbidden, "clock") || slices.Contains(forbidden, conversation.ToolCover) {
		t.Fatalf("calls alone: %v, of %v, not of %v", r.MustCall, offered, forbidden)
	}
	for _, want := range []string{`"messageId":{"type":"string","enum":["1","3"]}`, `"part":{"type":"string","enum":["1","2"]}`} {
		if !strings.Contains(string(r.Tools[1].Schema), want) {
			t.Errorf("%s is not in %s", want, r.Tools[1].Schema)
		}
	}
}

// N-15: the notes that were answered go with their own task, and with a clear.
// Rules 2.17, 9.15.
func TestTranscriptNotes(t *testing.T) {
	const note = `user Open messages: [1] "deploy" [2] "test"`
	before := []string{`create policy={"inbox.read":"all"}`, `send a "deploy"`, "model k1:clock{}", `send b "test"`, `tool c1 ok "12"`}
	w := script(t, append(before, `model k2:askUser{"question":"Where?"}`, `send c "weather?" mode=queue`, "model k3:clock{}", `send d "and tomorrow?" mode=steer`, `tool c2 ok "13"`,
		`model k4:respondToUser{"message":"Rain.","inReplyTo":1} k5:respondToUser{"message":"Sun.","inReplyTo":2}`, "model", `answer e q1 "Berlin"`)...)
	wantEntries(t, w.shown(), "user deploy", "assistant k1", "tool k1 12", "user test", note, "assistant k2", "tool k2 Berlin",
		"user weather?", "assistant k3", "tool k3 13", "user and tomorrow?", "assistant k4", "assistant k5", "tool k4 delivered", "tool k5 delivered",
		`note Open messages: [1] "deploy" [2] "test"`)

	w = script(t, append(before, "clear", `model k2:askUser{"question":"Where?"}`, `send c "weather?" mode=queue`)...)
	wantEntries(t, w.shown(), "assistant k2", "tool k2 "+conversation.NoResult, "user weather?", `note Open messages: [1] "weather?"`)
}

// Results of parallel tools stand behind their calls in the order of the calls,
// whatever the order in which they came.
func TestTranscriptParallelTools(t *testing.T) {
	w := script(t, "create", `send a "go"`, "model k1:clock{} k2:mail{} k3:clock{}", `tool c3 ok "three"`, `tool c1 ok "one"`, `tool c2 error "two failed"`)
	wantEntries(t, w.shown(), "user go", "assistant k1", "assistant k2", "assistant k3", "tool k1 one", "tool k2 two failed", "tool k3 three",
		`note Open messages: [1] "go"`)
}

// A delegation's answer is its call's result if it came before the next step;
// later it is an entry of its own, in the log's order among messages.
func TestTranscriptLateResults(t *testing.T) {
	early := script(t, "create", `send a "go"`, `model k1:delegate{"agent":"researcher","objective":"x"}`, `delegation d1 ok "x is 1"`)
	wantEntries(t, early.shown(), "user go", "assistant k1", "tool k1 x is 1", `note Open messages: [1] "go"`)

	late := script(t, "create", `send a "go"`, `model k1:delegate{"agent":"researcher","objective":"x"} k2:delegate{"agent":"developer","objective":"y"}`,
		`send b "hurry"`, `delegation d2 failed "no"`, `delegation d1 ok "x is 1"`, `send c "and?"`, "model")
	wantEntries(t, late.shown(), "user go", "assistant k1", "assistant k2",
		"tool k1 delegation d1 (researcher) started; its result follows", "tool k2 delegation d2 (developer) started; its result follows",
		"user hurry", "user [delegation d2 (developer) finished: failed: no]", "user [delegation d1 (researcher) finished: x is 1]", "user and?",
		`note Open messages: [1] "go" [2] "hurry" [3] "and?"`)
}

// A task that waits for an answer leaves its call with a result all the same
// when another task is shown: providers refuse a call without one.
func TestTranscriptOtherTaskWaits(t *testing.T) {
	w := script(t, "create", `send a "deploy"`, `model k1:askUser{"question":"Where?"}`, `send b "weather?" mode=queue`)
	wantEntries(t, w.shown(), "user deploy", "assistant k1", "tool k1 "+conversation.NoResult, "user weather?", `note Open messages: [1] "weather?"`)
}

// Whatever arrives while a step is open, another attempt of it is shown what the
// first one was shown.
func TestTranscriptSameForEveryAttempt(t *testing.T) {
	w := script(t, "create", `send a "go"`,
		`model k1:delegate{"agent":"researcher","objective":"x"} k2:askUser{"question":"Why?","blocking":false} k3:askUser{"question":"How?","blocking":false,"expiresIn":"1s"}`,
		`send b "second"`)
	first := w.shown()
	var out strings.Builder
	for _, line := range []string{
		`send c "third"`, `edit m3 "third!"`, `delegation d1 ok "x is 1"`, `answer d q1 "because"`, "wait 2s",
		`part "from outside"`, `send e "other" mode=queue`, "fail unavailable",
	} {
		w.run(&out, line)
	}
	second := w.shown()
	if second.Attempt != 2 || !reflect.DeepEqual(first.All(), second.All()) || !reflect.DeepEqual(first.Open, second.Open) {
		t.Errorf("attempt 1\n\t%s\nattempt %d\n\t%s", strings.Join(lines(first.Entries), "\n\t"), second.Attempt, strings.Join(lines(second.Entries), "\n\t"))
	}
	w.run(&out, "wait 1s")
	w.run(&out, "model")
	before := lines(second.Entries)
	wantEntries(t, w.shown(), append(before,
		"assistant from outside", "user [delegation d1 (researcher) finished: x is 1]", "user [answer to question q1: because]",
		"user [question q2 expired: no answer]", "user third!", `note Open messages: [1] "go" [2] "second" [3] "third!"`)...)
}

// Some providers give the calls of every answer the same ids. A result finds its
// own call all the same: that of its task, and of its own answer.
func TestTranscriptRepeatedCallIDs(t *testing.T) {
	w := script(t, "create", `send a "go"`, `model k1:delegate{"agent":"researcher","objective":"x"}`, `send b "time?"`, "model k1:clock{}",
		`delegation d1 ok "x is 1"`, `tool c1 ok "12:00"`)
	wantEntries(t, w.shown(), "user go", "assistant k1", "tool k1 delegation d1 (researcher) started; its result follows", "user time?", `user Open messages: [1] "go" [2] "time?"`, "assistant k1",
		"tool k1 12:00", "user [delegation d1 (researcher) finished: x is 1]", `note Open messages: [1] "go" [2] "time?"`)

	w = script(t, "create", `send a "deploy"`, `model k1:askUser{"question":"Where?"}`, `send b "time?" mode=queue`, "model k1:clock{}",
		`answer c q1 "Berlin"`, `tool c1 ok "12:00"`)
	wantEntries(t, w.shown(), "user deploy", "assistant k1", "tool k1 Berlin", "user time?", "assistant k1", "tool k1 12:00", `note Open messages: [1] "time?"`)
}

// A call without an id, or with one that its answer has given already, gets one:
// without it no result could be paired.
func TestCallsWithoutIDs(t *testing.T) {
	w := script(t, "create", `send a "go"`)
	w.feed(conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{
		{Kind: conversation.ItemCall, Tool: "clock"}, {Kind: conversation.ItemCall, Tool: "mail"}, {Kind: conversation.ItemCall, ID: "k", Tool: "clock"}, {Kind: conversation.ItemCall, ID: "k", Tool: "mail"},
	}}})
	for i := range 4 {
		w.feed(conversation.ToolDone{Call: conversation.CallID(fmt.Sprintf("c%d", i+1)), Status: conversation.CallOK, Result: fmt.Sprint(i)})
	}
	wantEntries(t, w.shown(), "user go", "assistant call-1-0", "assistant call-1-1", "assistant k", "assistant call-1-3",
		"tool call-1-0 0", "tool call-1-1 1", "tool k 2", "tool call-1-3 3", `note Open messages: [1] "go"`)
}

// What a provider wants back is there in the steps of its task, also after a
// restart, and gone when the task has ended, unless it stays: then a later task's
// requests have it, and count it. A request that was given keeps it.
func TestTranscriptOpaque(t *testing.T) {
	w := script(t, "create", `send a "go"`)
	w.feed(conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{
		{Kind: conversation.ItemCall, ID: "k1", Tool: "clock", Args: "{}", Opaque: "sealed", OpaqueBy: "openai:m"},
		{Kind: conversation.ItemCall, ID: "k2", Tool: "clock", Args: "{}", Opaque: "stays", OpaqueBy: "openai:m", OpaqueStays: true},
	}}})
	w.feed(conversation.ToolDone{Call: "c1", Status: conversation.CallOK, Result: "12:00"})
	w.feed(conversation.ToolDone{Call: "c2", Status: conversation.CallOK, Result: "12:00"})
	opaque := func(r conversation.Request) (found []string) {
		for _, e := range r.Entries {
			for _, item := range e.Items {
				found = append(found, item.Opaque+item.OpaqueBy)
			}
		}
		return found
	}
	within := w.shown()
	again := transcript.New()
	for _, e := range w.log {
		again.Add(e)
	}
	w.tr, again = again, w.tr
	restarted := w.shown()
	w.tr = again
	w.feed(conversation.Cancel{Author: "u", Task: "t1-s"})
	w.feed(conversation.Say{Author: "u", Text: "next"})
	after := w.shown()
	want := []string{"sealedopenai:m", "staysopenai:m"}
	if !slices.Equal(opaque(within), want) || !slices.Equal(opaque(restarted), want) || !slices.Equal(opaque(after), []string{"", want[1]}) {
		t.Errorf("within its task %q, after a restart %q, in the next task %q", opaque(within), opaque(restarted), opaque(after))
	}
}

// Blank text of an answer is not shown again: providers refuse it, and a refused
// transcript would be refused for ever.
func TestTranscriptBlankText(t *testing.T) {
	w := script(t, "create", `send a "one"`, `model " " k1:clock{} ""`, `tool c1 ok "12:00"`, `model "1"`, `send b "two"`, `model "\n"`)
	wantEntries(t, w.shown(), "user one", "assistant k1", "tool k1 12:00", "assistant 1", "user two",
		`user [reminder: [1] "two" is not answered yet. Answer it now, or say with coverMessage what became of it.]`)
}

// Trimming leaves whole units out, of ended tasks only: the first message stays,
// a call is never parted from its result, and what is open is whole.
func TestTranscriptWindow(t *testing.T) {
	w := script(t, "create", `send first "the very first"`, `model "ok"`)
	for i := range 500 {
		w.feed(conversation.Say{Author: "u", Text: fmt.Sprintf("message %d", i)})
		w.feed(w.call(fmt.Sprintf("k%d", i)))
		w.feed(conversation.ToolDone{Call: conversation.CallID(fmt.Sprintf("c%d", i+1)), Status: conversation.CallOK, Result: fmt.Sprintf("result %d", i)})
		if i < 499 {
			w.feed(conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "done"}}}})
		}
	}
	r := w.shown()
	if n := len(r.Entries); n > 2*transcript.MaxEntries+1 || n < transcript.MaxEntries {
		t.Errorf("%d entries are shown", n)
	}
	if r.Entries[0].Text != "the very first" {
		t.Errorf("the first entry is %+v", r.Entries[0])
	}
	if e := r.Entries[1]; e.Role != conversation.RoleUser || e.Message == "" {
		t.Errorf("the cut is not before a message: %+v", e)
	}
	for i, e := range r.Entries {
		if e.Role == conversation.RoleTool && (i == 0 || r.Entries[i-1].Role != conversation.RoleAssistant || r.Entries[i-1].Items[0].ID != e.CallID) {
			t.Fatalf("entry %d is a result without its call: %+v", i, e)
		}
	}
	got := withNote(r)
	if want := []string{"user message 499", "assistant k499", "tool k499 result 499", `note Open messages: [1] "message 499"`}; !slices.Equal(got[len(got)-4:], want) {
		t.Errorf("the end is %q", got[len(got)-4:])
	}

	// A rebuilt transcript needs the window only, and what is open is the same.
	ask := w.s.Outstanding(w.now)[0].(conversation.AskModel)
	again := withNote(windowed(w.s, w.rules, w.log).RequestWith(w.key, w.rules, w.s.Own(), ask))
	if n := 100; !slices.Equal(again[len(again)-n:], got[len(got)-n:]) {
		t.Error("the end of the rebuilt transcript differs")
	}
}

// An open task is never trimmed, however long it is.
func TestTranscriptKeepsOpenTask(t *testing.T) {
	w := script(t, `config policy={"task.max_steps":1000}`, "create", `send a "start"`)
	for i := range 700 {
		w.feed(w.call(fmt.Sprintf("k%d", i)))
		w.feed(conversation.ToolDone{Call: conversation.CallID(fmt.Sprintf("c%d", i+1)), Status: conversation.CallOK, Result: "r"})
	}
	if r := w.shown(); len(r.All()) != 1+2*700 {
		t.Errorf("%d entries", len(r.Entries))
	}
}

// A summary replaces tasks that have ended; an open one stays whole.
func TestTranscriptCompaction(t *testing.T) {
	w := script(t, "create", `send a "one"`, `model "1"`, `send b "two"`, `compact 8 "They counted."`)
	wantEntries(t, w.shown(), "user one", "user [summary of the conversation so far: They counted.]", "user two")
}

// What an agent may call (D-08, D-13, D-20): the engine's tools by its profile
// and depth, and each schema is an object that names its required fields.
func TestToolsFor(t *testing.T) {
	rules := testRules()
	names := func(p policy.Profile, depth int) []string {
		var all []string
		for _, spec := range transcript.ToolsFor(rules, p, depth) {
			all = append(all, spec.Name)
		}
		return all
	}
	root := []string{conversation.ToolRespond, conversation.ToolCover, conversation.ToolAsk, conversation.ToolDelegate, conversation.ToolDelegateParallel, conversation.ToolAmend, "delegateToDeveloper", "delegateToResearcher", "clock", "mail", "rm"}
	if got := names(rules.Agents[conversation.Coordinator], 0); !slices.Equal(got, root) {
		t.Errorf("coordinator: %q", got)
	}
	if got := names(rules.Agents["developer"], 3); !slices.Equal(got, []string{conversation.ToolRespond, conversation.ToolAsk, "clock", "mail", "rm"}) {
		t.Errorf("at the depth limit: %q", got)
	}
	if got := names(rules.Agents["mute"], 0); got != nil {
		t.Errorf("an agent that cannot call tools: %q", got)
	}
	p := rules.Agents[conversation.Coordinator]
	p.Tools, p.MayAsk, p.Delegates = []string{"clock"}, false, false
	if got := names(p, 0); !slices.Equal(got, []string{conversation.ToolRespond, conversation.ToolCover, "clock"}) {
		t.Errorf("a restricted agent: %q", got)
	}
	for _, spec := range transcript.ToolsFor(rules, rules.Agents[conversation.Coordinator], 0)[:8] {
		var schema struct {
			Type       string
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(spec.Schema, &schema); err != nil || schema.Type != "object" || len(schema.Required) == 0 || spec.Description == "" {
			t.Errorf("%s: %v %s", spec.Name, err, spec.Schema)
		}
		for _, name := range schema.Required {
			if schema.Properties[name] == nil {
				t.Errorf("%s requires %q, which it does not describe", spec.Name, name)
			}
		}
	}
}

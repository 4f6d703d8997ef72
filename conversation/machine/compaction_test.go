package machine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/tokens"
	"parley/conversation/transcript"
)

func TestContextLimitsOfAgents(t *testing.T) {
	rules := testRules()
	if err := transcript.CheckContext(rules); err != nil {
		t.Error(err)
	}
	a := rules.Agents["developer"]
	a.Prompt = strings.Repeat("word", 58_000)
	rules.Agents["developer"] = a
	if err := transcript.CheckContext(rules); err == nil || !strings.Contains(err.Error(), `agent "developer"`) {
		t.Errorf("a prompt that leaves no room: %v", err)
	}
	rules.Policy.Context = policy.Context{Budget: 50_000}
	if err := transcript.CheckContext(rules); err == nil || !strings.HasPrefix(err.Error(), "context.budget") {
		t.Errorf("a prompt that is over the budget: %v", err)
	}
}

// Long results are shown by head and tail, with the place of the whole; the log
// has all of it.
func TestLongResults(t *testing.T) {
	w := newScene(t)
	w.rules.Policy.Context.ToolResult = 20
	w.tr = transcript.Of(w.key, w.rules)
	w.feed(conversation.Create{Owner: "u"})
	w.feed(conversation.Say{Author: "u", Text: "go"})
	w.feed(conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{
		{Kind: conversation.ItemCall, ID: "k1", Tool: "clock"}, {Kind: conversation.ItemCall, ID: "k2", Tool: "clock"}, {Kind: conversation.ItemCall, ID: "k3", Tool: conversation.ToolDelegate, Args: `{"agent":"researcher","objective":"x"}`},
	}}})
	w.feed(conversation.ToolDone{Call: "c1", Status: conversation.CallOK, Result: "exactly twenty bytes"})
	w.feed(conversation.ToolDone{Call: "c2", Status: conversation.CallOK, Result: "é23456789012345é89012345é"})
	w.feed(conversation.Say{Author: "u", Text: "and?"})
	w.feed(conversation.DelegationDone{Delegation: "d1", Status: conversation.CallOK, Summary: strings.Repeat("y", 30)})
	where := func(n int, call string) string {
		return fmt.Sprintf("\n[… %d bytes left out; call %s: whole result at GET /api/sessions/s/calls/%s …]\n", n, call, call)
	}
	got := lines(all(w.shown()))
	want := []string{
		"tool k1 exactly twenty bytes", "tool k2 é2345678901234" + where(8, "c2") + "345é",
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%q is not shown in\n%s", line, strings.Join(got, "\n"))
		}
	}
	w.feed(conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1})
	if late := "user [delegation d1 (researcher) finished: " + strings.Repeat("y", 15) + where(10, "d1") + "yyyyy]"; !slices.Contains(lines(all(w.shown())), late) {
		t.Errorf("%q", lines(all(w.shown())))
	}
	for _, e := range w.log {
		if b, ok := e.Body.(conversation.ToolFinished); ok && b.Call == "c2" && b.Summary != "é23456789012345é89012345é" {
			t.Errorf("the log has %q", b.Summary)
		}
	}
}

// talk brings a message, a call with a result of n tokens, and an answer.
func (w *scene) talk(name string, n int) {
	w.feed(conversation.Say{Author: "u", Text: name})
	w.called(name, n)
	w.feed(conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "done " + name}}}})
}

func (w *scene) called(name string, n int) {
	w.feed(w.call("k-" + name))
	w.feed(conversation.ToolDone{Call: conversation.CallID(fmt.Sprintf("c%d", w.s.state.Calls)), Status: conversation.CallOK, Result: strings.Repeat("word", n)})
}

// limited is a scene with limits, after a first message and its answer.
func limited(t *testing.T, c policy.Context) *scene {
	w := newScene(t)
	w.rules.Policy.Context, w.rules.Policy.Coverage = c, policy.CoverageSeen
	for name, a := range w.rules.Agents {
		a.Prompt, a.EngineTools = "", false
		w.rules.Agents[name] = a
	}
	w.load()
	w.feed(conversation.Create{Owner: "u"})
	w.feed(conversation.Say{Author: "u", Text: "the original request"})
	w.feed(conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "ok"}}}})
	return w
}

// short are the lines of a request with long words cut.
func short(r conversation.Request) []string {
	all := lines(r.All())
	for i := range all {
		all[i] = conversation.Excerpt(all[i], 24)
	}
	return all
}

// A request over the budget is shown less, in whole units: ended tasks first,
// then other tasks, then this task's oldest answers with their results. The
// original request, this task's messages and its newest answer stay, and what an
// earlier request was given is not touched.
func TestBudget(t *testing.T) {
	setup := func(budget int) (*scene, conversation.Request) {
		w := limited(t, policy.Context{Budget: budget})
		w.talk("alpha", 100)
		w.talk("beta", 100)
		w.feed(conversation.Say{Author: "u", Text: "where"})
		w.feed(conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "k-ask", Tool: conversation.ToolAsk, Args: `{"question":"Berlin?"}`}}}})
		w.feed(conversation.Say{Author: "u", Text: "three", Mode: conversation.ModeQueue})
		w.called("three-a", 100)
		w.called("three-b", 100)
		return w, w.shown()
	}
	_, whole := setup(0)
	size := whole.Tokens()
	weight := func(parts ...string) int { // of what is left out, less the entry that says so
		n := -(tokens.PerEntry + 20) // the entry that says so
		for _, e := range whole.Entries[1:] {
			if line := lines([]conversation.Entry{e})[0]; slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(line, part) }) {
				n += e.Tokens()
			}
		}
		return n
	}
	ended := []string{"alpha", "beta", "ok"}
	waiting := append(ended[:3:3], "where", "k-ask")
	for _, test := range []struct {
		name   string
		budget int
		gone   []string // what is missing of the whole
	}{
		{"enough", size, nil},
		{"one too many", size - 1, []string{"alpha", "ok"}},
		{"two tasks", size - weight("alpha", "ok") - 1, []string{"alpha", "beta", "ok"}},
		{"the waiting task", size - weight(ended...) - 1, []string{"alpha", "beta", "ok", "where", "k-ask"}},
		{"of this task", size - weight(waiting...) - 1, []string{"alpha", "beta", "ok", "where", "k-ask", "three-a"}},
		{"impossible", 1, []string{"alpha", "beta", "ok", "where", "k-ask", "three-a"}},
	} {
		_, r := setup(test.budget)
		got := short(r)
		for _, line := range short(whole) {
			stays := slices.Contains(got, line)
			gone := slices.ContainsFunc(test.gone, func(part string) bool { return strings.Contains(line, part) })
			if line == "user the original reques…" {
				gone = false
			}
			if stays == gone {
				t.Errorf("%s: %q stays: %v\n%s", test.name, line, stays, strings.Join(got, "\n"))
			}
		}
		if n := r.Tokens(); test.budget > 1 && n > test.budget {
			t.Errorf("%s: %d tokens of %d", test.name, n, test.budget)
		}
		if noted := slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, " earlier entri") }); noted != (test.gone != nil) {
			t.Errorf("%s: said to be cut: %v\n%s", test.name, noted, strings.Join(got, "\n"))
		}
		paired(t, r)
	}

	w, small := setup(size - 100)
	before := fmt.Sprintf("%+v", small)
	w.rules.Policy.Context.Budget = 0
	if again := w.shown(); !reflect.DeepEqual(again.All(), whole.All()) {
		t.Error("what was left out once is gone for good")
	}
	w.feed(w.call("more"))
	if fmt.Sprintf("%+v", small) != before {
		t.Error("a request that was given out has changed")
	}
}

// paired: no call without its result, no result without its call.
func paired(t *testing.T, r conversation.Request) {
	t.Helper()
	for i, e := range r.Entries {
		for k, item := range e.Items {
			if item.Kind == conversation.ItemCall && (i+1+k >= len(r.Entries) || r.Entries[i+1+k].CallID != item.ID) {
				t.Errorf("the call %s has no result", item.ID)
			}
		}
		if e.Role == conversation.RoleTool && (i == 0 || r.Entries[i-1].Role == conversation.RoleUser) {
			t.Errorf("the result of %s has no call", e.CallID)
		}
	}
}

// plan is the summary that is called for now.
func (w *scene) plan() (transcript.Compaction, bool) {
	return w.tr.Compaction(w.key, w.rules, conversation.Coordinator)
}

// The plan of a summary: when, up to where, of what, and by whom.
func TestCompactionPlan(t *testing.T) {
	limits := policy.Context{Budget: 1000, Threshold: 500, Keep: 150, Summary: 20}
	w := limited(t, limits)
	w.talk("one", 200)
	if _, due := w.plan(); due {
		t.Fatalf("at %d tokens", w.tr.Size())
	}
	w.talk("two", 200)
	twoEnds := w.s.Head()
	w.talk("three", 100)
	w.feed(conversation.Say{Author: "u", Text: "four"})
	w.called("four", 300)
	shown := w.shown()
	c, due := w.plan()
	if !due || c.Upto != twoEnds || c.Before != shown.Tokens() {
		t.Fatalf("%v %+v, two ended at %d", due, c, twoEnds)
	}
	r := c.Request
	if len(r.Tools) > 0 || r.Agent != conversation.Coordinator || !strings.HasPrefix(r.System, "You condense conversations") || len(r.Last) != 1 || r.Last[0].Text != "[summarise the conversation above in at most 15 words]" {
		t.Errorf("%+v", r)
	}
	want := []string{
		"user the original reques…", "assistant ok", "user one", "assistant [called clock …", "user [result of clock: w…", "assistant done one",
		"user two", "assistant [called clock …", "user [result of clock: w…", "assistant done two", "user [summarise the conv…",
	}
	if got := short(r); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	cmd, ok := c.Compacted(conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: " They talked. "}, {Kind: conversation.ItemCall, Tool: "x"}, {Kind: conversation.ItemText, Text: "\xff"}}})
	if !ok || cmd.Summary != "They talked.\n\uFFFD" || cmd.Upto != c.Upto || cmd.TokensBefore != c.Before {
		t.Errorf("%+v", cmd)
	}
	before := fmt.Sprintf("%+v", shown)
	w.feed(cmd)
	if fmt.Sprintf("%+v", shown) != before {
		t.Error("a request that was given out has changed")
	}
	if n := w.tr.Size(); n != cmd.TokensAfter {
		t.Errorf("%d tokens after, said to be %d", n, cmd.TokensAfter)
	}
	if got, want := short(w.shown()), []string{
		"user the original reques…", "user [summary of the con…", "user three", "assistant k-three", "tool k-three wordwordwor…", "assistant done three",
		"user four", "assistant k-four", "tool k-four wordwordword…",
	}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if _, due := w.plan(); due {
		t.Error("due again at once")
	}
	if _, ok := c.Compacted(conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: " \n"}}}); ok {
		t.Error("nothing is a summary")
	}
	if long, _ := c.Compacted(conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: strings.Repeat("long", 100)}}}); tokens.Of(long.Summary) > limits.Summary+2 {
		t.Errorf("a long summary has %d tokens", tokens.Of(long.Summary))
	}
	// The next one is of the last one, too.
	w.feed(conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "four!"}}}})
	w.talk("five", 200)
	next, due := w.plan()
	if got := short(next.Request); !due || got[0] != "user [summary of the con…" || got[1] != "user three" {
		t.Errorf("%v %q", due, got)
	}
}

// No summary is made when none is wanted or none can be: an open task is never
// summarised, and a little is not worth it.
func TestCompactionNotPossible(t *testing.T) {
	limits := policy.Context{Budget: 1000, Threshold: 500, Keep: 0, Summary: 20}
	open := limited(t, limits)
	open.feed(conversation.Say{Author: "u", Text: "go"})
	open.called("go", 700)
	if _, due := open.plan(); due {
		t.Error("of an open task")
	}
	never := limited(t, policy.Context{Budget: 1000})
	never.talk("one", 700)
	if _, due := never.plan(); due {
		t.Error("threshold = 0")
	}
	w := limited(t, limits)
	w.talk("one", 700)
	oneEnds := w.s.Head()
	w.talk("two", 10)
	if c, due := w.plan(); !due || c.Upto != oneEnds {
		t.Errorf("the newest small task does not stay: %v %+v", due, c)
	}
	huge := limited(t, limits)
	for i := range 6 {
		huge.talk(fmt.Sprint(i), 300)
	}
	if c, due := huge.plan(); !due || c.Request.Tokens() > limits.Budget {
		t.Errorf("%v: the request for a summary has %d tokens", due, c.Request.Tokens())
	}
}

// Many small tasks are summarised before they would be left out for their
// number, and a transcript that is read again is the one that was there.
func TestCompactionOfALongConversation(t *testing.T) {
	w := limited(t, policy.DefaultPolicy().Context)
	summaries := 0
	for i := range 700 {
		w.feed(conversation.Say{Author: "u", Text: fmt.Sprintf("message %d", i)})
		if i%100 == 7 || i == 699 {
			rebuilt, events := rebuilt(w.s, w.rules, w.log)
			ask := w.s.Outstanding(w.now)[0].(conversation.AskModel)
			if a, b := inWords(t, w.shown()), inWords(t, rebuilt.Request(w.key, w.rules, ask)); a != b {
				t.Fatalf("at %d, from %+v of %d, the rebuilt transcript differs\nlive    %s\nrebuilt %s", i, w.s.TranscriptRanges(), w.s.Head(), a, b)
			}
			if events > conversation.TranscriptWindow+7 {
				t.Errorf("at %d %d events must be read", i, events)
			}
			restored, err := Restore(w.key, w.rules, snapshot(t, w.s))
			if err != nil || !reflect.DeepEqual(restored.TranscriptRanges(), w.s.TranscriptRanges()) {
				t.Fatalf("a snapshot remembers another place: %v", err)
			}
		}
		w.feed(conversation.ModelAnswered{Step: w.s.state.Step, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: fmt.Sprintf("answer %d", i)}}}})
		if c, due := w.plan(); due {
			summaries++
			cmd, _ := c.Compacted(conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: fmt.Sprintf("summary %d", summaries)}}})
			w.feed(cmd)
		}
	}
	if summaries < 5 || summaries > 15 {
		t.Errorf("%d summaries of 700 turns", summaries)
	}
}

// A snapshot that does not know the original request is shown the window.
func TestSnapshotWithoutOrigin(t *testing.T) {
	w := limited(t, policy.DefaultPolicy().Context)
	var old map[string]any
	if err := json.Unmarshal(snapshot(t, w.s), &old); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"Origin", "Ended"} {
		if old[field] == nil {
			t.Errorf("the snapshot holds no %s", field)
		}
		delete(old, field)
	}
	data, _ := json.Marshal(old)
	s, err := Restore(w.key, w.rules, data)
	if err != nil {
		t.Fatal(err)
	}
	w.s = s
	w.feed(conversation.Say{Author: "u", Text: "later"})
	if s.TranscriptRanges().Origin != nil || s.state.Origin != nil {
		t.Errorf("a later message is taken for the original request: %+v", s.state.Origin)
	}
}

// What an outside runtime said and no step has shown yet is summarised with the
// rest, and not shown again.
func TestCompactionOfOutsideParts(t *testing.T) {
	w := limited(t, policy.Context{Budget: 1000, Threshold: 100, Keep: 0, Summary: 20})
	w.talk("one", 100)
	w.feed(conversation.AddPart{Author: "u", Source: "x", Text: "from outside"})
	w.talk("two", 100)
	w.feed(conversation.AddPart{Author: "u", Source: "x", Index: 1, NextFree: 1, Text: "later"})
	w.feed(conversation.Compacted{Upto: w.s.Head(), Summary: "stale"}) // nothing: it covers the head
	last := w.s.Head()
	w.feed(conversation.Seen{User: "u", Seq: 1})
	w.feed(conversation.AddPart{Author: "u", Source: "x", Index: 2, NextFree: 2, Text: "newest"})
	w.feed(conversation.Compacted{Upto: last, Summary: "all"})
	w.feed(conversation.Say{Author: "u", Text: "three"})
	wantEntries(t, w.shown(), "user the original request", "user [summary of the conversation so far: all]", "assistant newest", "user three")
	rebuilt := windowed(w.s, w.rules, w.log)
	if got, want := lines(rebuilt.Request(w.key, w.rules, w.s.Outstanding(w.now)[0].(conversation.AskModel)).Entries), lines(w.shown().Entries); !slices.Equal(got, want) {
		t.Errorf("rebuilt %q, want %q", got, want)
	}
}

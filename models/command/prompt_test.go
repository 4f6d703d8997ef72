package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/persistence/persistencetest"
)

// stage is a session of the real machine with the profile that a command-line
// agent needs. The test plays the model, or lets one answer.
type stage struct {
	*machinetest.Session
	t     *testing.T
	world *machinetest.World
	said  int
}

var key = conversation.SessionKey{Tenant: "t", Session: "s1"}

func newStage(t *testing.T) *stage {
	w := machinetest.New(persistencetest.NewMemory())
	w.Pace = time.Minute
	w.Rules.Agents = map[conversation.AgentName]policy.Profile{conversation.Coordinator: {Name: conversation.Coordinator, MayAsk: true}}
	s := &stage{t: t, world: w}
	s.do(conversation.Create{Owner: "u"})
	s.Session = w.Session(key)
	return s
}

func (s *stage) do(c conversation.Command) {
	s.t.Helper()
	if _, err := s.world.Do(key, c); err != nil {
		s.t.Fatalf("%s: %v", c.Name(), err)
	}
}

func (s *stage) say(text string) {
	s.t.Helper()
	s.said++
	s.do(conversation.Say{Author: "u", ClientMsgID: conversation.ClientMsgID(fmt.Sprint(s.said)), Text: text})
}

// status is that of the task that changed last, and what was shown.
func (s *stage) status() (status conversation.TaskStatus, shown []string) {
	for _, e := range s.Events() {
		switch b := e.Body.(type) {
		case conversation.TaskStatusChanged:
			status = b.New
		case conversation.PartialResponse:
			shown = append(shown, b.Text)
		case conversation.Response:
			shown = append(shown, b.Text)
		}
	}
	return status, shown
}

func (s *stage) isNow(want conversation.TaskStatus) {
	s.t.Helper()
	if got, _ := s.status(); got != want {
		s.t.Fatalf("the task is %s, want %s", got, want)
	}
}

func (s *stage) request() conversation.Request {
	s.t.Helper()
	r, ok := s.Request()
	if !ok {
		s.t.Fatal("the model is not asked")
	}
	return r
}

// prompt is what the agent would be told now.
func (s *stage) prompt(pairs int) string {
	s.t.Helper()
	r := s.request()
	if len(r.Tools) != 0 {
		s.t.Errorf("the agent is offered %d tools", len(r.Tools))
	}
	return readPrompt(&r, "ASK:", pairs).String()
}

// answer is the agent's output.
func (s *stage) answer(output string) {
	s.t.Helper()
	a := &items{marker: "ASK:", limit: 4000, step: s.request().Step}
	a.block(output, false)
	s.Answer(a.list...)
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the prompt is\n%s\n--- want\n%s", got, want)
	}
}

// the first message bare, then with the conversation before it.
func TestPrompt(t *testing.T) {
	s := newStage(t)
	s.say("Hello\nyou")
	same(t, s.prompt(10), "Hello\nyou")
	s.answer("Hi.")
	s.say("And now?")
	same(t, s.prompt(10), "Previous conversation context:\nUser: Hello\nyou\nAssistant: Hi.\n\nCurrent message:\nAnd now?")
}

// ten pairs, twenty entries, the oldest left out first.
func TestWindow(t *testing.T) {
	s := newStage(t)
	for i := range 15 {
		s.say(fmt.Sprintf("question %d.", i))
		if i == 14 {
			break
		}
		s.answer(fmt.Sprintf("answer %d.", i))
	}
	got := s.prompt(10)
	if strings.Count(got, "\nUser: ") != 10 || strings.Count(got, "\nAssistant: ") != 10 {
		t.Errorf("the window is not 10 pairs:\n%s", got)
	}
	if strings.Contains(got, "answer 3.") || !strings.Contains(got, "question 4.") || !strings.HasSuffix(got, "Assistant: answer 13.\n\nCurrent message:\nquestion 14.") {
		t.Errorf("the wrong ones were left out:\n%s", got)
	}
	if got := s.prompt(1); strings.Count(got, "User: ") != 1 || !strings.Contains(got, "question 13.") {
		t.Errorf("a window of one pair:\n%s", got)
	}
}

// a turn that failed, or that brought nothing, leaves no user entry behind.
func TestFailedTurn(t *testing.T) {
	s := newStage(t)
	s.say("one")
	s.answer("1")
	s.say("two")
	s.Fail(conversation.Failure{Code: conversation.Timeout, Message: "slow"}, true)
	s.isNow(conversation.TaskError)
	s.say("three")
	same(t, s.prompt(10), "Previous conversation context:\nUser: one\nAssistant: 1\n\nCurrent message:\nthree")
	s.answer("")
	s.say("four")
	same(t, s.prompt(10), "Previous conversation context:\nUser: one\nAssistant: 1\n\nCurrent message:\nfour")
}

// D-01, D-04: a message that came while the agent worked is the next prompt's message. Two
// of them are a prompt each, in order; with inbox.read=all they come together.
func TestSteered(t *testing.T) {
	s := newStage(t)
	s.say("one")
	s.say("two")
	s.say("three")
	same(t, s.prompt(10), "one")
	s.answer("1")
	same(t, s.prompt(10), "Previous conversation context:\nUser: one\nAssistant: 1\n\nCurrent message:\ntwo")
	s.answer("2")
	same(t, s.prompt(1), "Previous conversation context:\nUser: two\nAssistant: 2\n\nCurrent message:\nthree")
	s.answer("3")
	s.isNow(conversation.TaskComplete)
	s.do(conversation.Update{Policy: conversation.Overrides{"inbox.read": json.RawMessage(`"all"`)}})
	s.say("four")
	s.say("five")
	s.say("six")
	s.answer("4")
	same(t, s.prompt(1), "Previous conversation context:\nUser: four\nAssistant: 4\n\nCurrent message:\nfive\n\nsix")
	s.answer("5 and 6")
	s.isNow(conversation.TaskComplete)
	s.say("seven")
	same(t, s.prompt(1), "Previous conversation context:\nUser: five\n\nsix\nAssistant: 5 and 6\n\nCurrent message:\nseven")
}

// a line with the marker makes the task wait; the
// reply continues it, in any number of rounds. Meanwhile other tasks run.
func TestContinuation(t *testing.T) {
	s := newStage(t)
	s.say("Fix the login")
	s.answer("I looked at it.\n\nASK: OAuth or JWT?\nBoth work.")
	s.isNow(conversation.TaskAwaiting)
	s.do(conversation.Say{Author: "u", ClientMsgID: "other", Text: "What time is it?", Mode: conversation.ModeQueue})
	same(t, s.prompt(10), "Previous conversation context:\nUser: Fix the login\nAssistant: I looked at it.\n\nASK: OAuth or JWT?\nBoth work.\n\nCurrent message:\nWhat time is it?")
	s.answer("Noon.")
	reply := func(text string) {
		t.Helper()
		s.do(conversation.Reply{Task: "t1-s1", Author: "u", ClientMsgID: conversation.ClientMsgID(text), Text: text})
	}
	reply("JWT,\nplease")
	first := "Previous conversation context:\nUser: What time is it?\nAssistant: Noon.\n\nCurrent message:\nFix the login\n\n" +
		"[Previous Output]\nI looked at it.\n\nASK: OAuth or JWT?\nBoth work.\n\n[User Reply]\nJWT,\nplease"
	same(t, s.prompt(10), first+"\n\n[Continue Task]\n"+goOn)
	if strings.Contains(goOn, "\n") {
		t.Error("R-11: the instruction is not one line")
	}
	s.answer("ASK: Which key?")
	reply("The new one")
	second := "\n\n[Previous Output]\nASK: Which key?\n\n[User Reply]\nThe new one"
	same(t, s.prompt(10), first+second+"\n\n[Continue Task]\n"+goOn)
	// The oldest rounds go first, the message stays.
	same(t, s.prompt(1), "Previous conversation context:\nUser: What time is it?\nAssistant: Noon.\n\nCurrent message:\nFix the login"+second+"\n\n[Continue Task]\n"+goOn)
	s.answer("Done.")
	s.isNow(conversation.TaskComplete)
	s.say("Thanks")
	got := s.prompt(10)
	if !strings.HasSuffix(got, "User: JWT,\nplease\nAssistant: ASK: Which key?\nUser: The new one\nAssistant: Done.\n\nCurrent message:\nThanks") || strings.Contains(got, outputHead) {
		t.Errorf("R-12: afterwards the prompt is\n%s", got)
	}
}

// what was said besides the reply, and several questions at once.
func TestContinuationWithMore(t *testing.T) {
	s := newStage(t)
	s.say("Build it")
	s.answer("ASK: What colour?\nASK: What size?")
	s.say("small") // the newest question first
	s.isNow(conversation.TaskAwaiting)
	s.say("red")
	same(t, s.prompt(10), "Build it\n\n[Previous Output]\nASK: What colour?\n\nASK: What size?\n\n[User Reply]\n> What colour?\nred\n\n> What size?\nsmall\n\n[Continue Task]\n"+goOn)
	s.answer("ASK: Sure?")
	s.isNow(conversation.TaskAwaiting)
	s.world.Full = true
	s.say("yes")
	s.say("and quickly") // before the task goes on
	s.world.Full = false
	s.do(conversation.SlotGranted{})
	if got := s.prompt(10); !strings.HasSuffix(got, "[Previous Output]\nASK: Sure?\n\n[User Reply]\nyes\n\nand quickly\n\n[Continue Task]\n"+goOn) {
		t.Errorf("the prompt is\n%s", got)
	}
}

// with real processes.
func TestAskingAgent(t *testing.T) {
	o := agent("asker")
	o.AskMarker = "ASK:"
	m := open(t, o)
	s := newStage(t)
	turn := func() {
		t.Helper()
		got, err := askModel(t, m, s.request())
		if err != nil {
			t.Fatal(err)
		}
		s.Answer(got.Items...)
	}
	s.say("Fix the login")
	turn()
	s.isNow(conversation.TaskAwaiting)
	s.say("JWT")
	turn()
	s.isNow(conversation.TaskComplete)
	if _, shown := s.status(); strings.Join(shown, "|") != "I looked at it.|Done as you said." {
		t.Errorf("shown is %q", shown)
	}
}

func askModel(t *testing.T, m *Model, r conversation.Request) (*conversation.ModelAnswer, error) {
	return ask(t.Context(), m, r, nil)
}

// The last answer at the step limit: a question in it would get no answer.
func TestWrapUp(t *testing.T) {
	r := say("[wrap up: say what was done.]")
	r.WrapUp = true
	o := agent("asker")
	o.AskMarker = "ASK:"
	if got := text(t, open(t, o), r); !strings.Contains(got, "ASK: Which one?") {
		t.Errorf("the answer is %q", got)
	}
}

// Entries of other agents, of summaries and of outside runtimes.
func TestOtherEntries(t *testing.T) {
	user := func(task conversation.TaskID, id conversation.MessageID, text string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleUser, Task: task, Message: id, Text: text}
	}
	said := func(task conversation.TaskID, items ...conversation.Item) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleAssistant, Task: task, Items: items}
	}
	words := func(text string) conversation.Item { return conversation.Item{Kind: conversation.ItemText, Text: text} }
	tool := func(id, name, args string) conversation.Item {
		return conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: name, Args: args}
	}
	r := conversation.Request{Task: "t3", Note: `Open messages: [1] "now"`, Open: []conversation.OpenMessage{{Ordinal: 1, Message: "m3", Excerpt: "now"}}, Entries: []conversation.Entry{
		user("", "", "[summary of the conversation so far: they met]"),
		said("", words("from outside")),
		user("t1", "m1", "search"),
		said("t1", tool("c1", "lookup", `{"q":1}`)),
		{Role: conversation.RoleTool, Task: "t1", CallID: "c1", Text: "a result"},
		said("t1", tool("c2", conversation.ToolRespond, `{"message":"found one"}`), words("and another")),
		{Role: conversation.RoleTool, Task: "t1", CallID: "c2", Text: "delivered"},
		user("t3", "m3", "now"),
	}}
	same(t, readPrompt(&r, "", 10).String(), "Previous conversation context:\n[summary of the conversation so far: they met]\nAssistant: from outside\nUser: search\nAssistant: found one\n\nand another\n\nCurrent message:\nnow")
	// Triage asks without a task.
	same(t, readPrompt(&conversation.Request{Entries: []conversation.Entry{user("", "", "1. a\n2. b")}}, "", 10).String(), "1. a\n2. b")
	same(t, readPrompt(&conversation.Request{Task: "t1"}, "", 10).String(), nothingNew)
}

// as an argument the prompt loses its oldest turns rather than not fitting.
func TestPromptFitsArgument(t *testing.T) {
	p := prompt{message: "now"}
	for i := range 4 {
		p.turns = append(p.turns, turn{fmt.Sprintf("turn %d", i), strings.Repeat("x", 50<<10)})
	}
	d, ok := p.deliver(PromptArg)
	if !ok || d.stdin || len(d.text) > maxArg || strings.Count(d.text, "turn ") != 2 || !strings.Contains(d.text, "turn 3") {
		t.Errorf("%d bytes with %d turns (stdin %v, ok %v)", len(d.text), strings.Count(d.text, "turn "), d.stdin, ok)
	}
	if len(p.turns) != 4 {
		t.Error("the prompt itself was changed")
	}
	if d, ok = p.deliver(PromptAuto); !ok || !d.stdin || strings.Count(d.text, "turn ") != 4 {
		t.Errorf("by standard input: %d bytes", len(d.text))
	}
}

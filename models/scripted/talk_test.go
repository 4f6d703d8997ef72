package scripted

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// talk plays a session to the model: a small, plain stand-in for the machine
// that keeps the transcript, answers calls and asks again while something is
// unseen. It notes what happened, a line each, in log.
type talk struct {
	t      *testing.T
	script *script
	r      conversation.Request
	log    []string

	tools    map[string]func(args string) string
	slow     bool // delegations run until finish is called
	resolved map[conversation.MessageID]bool
	unseen   bool
	closed   bool
	nudges   int
	steps    int
	messages int
	asked    int
	open     map[conversation.QuestionID]string // provider ids of open non-blocking questions
	blocked  string                             // provider id of the open blocking question
	running  []*delegation
	count    int // delegations
	final    []string
	delays   []string
}

type delegation struct {
	call      conversation.CallID
	id        string
	tool      string
	agent     conversation.AgentName
	objective string
	late      bool // its step is over: the result comes as an entry of its own
	changes   []string
}

var engineTools = []string{
	conversation.ToolRespond, conversation.ToolAsk, conversation.ToolDelegate,
	conversation.ToolDelegateParallel, conversation.ToolAmend, conversation.ToolCover,
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	s, err := readScript(embedded, true)
	if err != nil {
		t.Fatal(err)
	}
	w := &talk{t: t, script: s, resolved: map[conversation.MessageID]bool{}, open: map[conversation.QuestionID]string{}}
	w.r = conversation.Request{Session: "s1", Task: "t1-s1", Agent: conversation.Coordinator, Attempt: 1, Stream: true}
	for _, name := range engineTools {
		w.r.Tools = append(w.r.Tools, conversation.ToolSpec{Name: name})
	}
	w.tools = map[string]func(string) string{}
	w.tool("clock", func(string) string { return "12:00" })
	w.tool("calculate", func(args string) string {
		var in struct{ Expression string }
		if json.Unmarshal([]byte(args), &in) != nil || in.Expression == "" {
			return "error: expression is missing"
		}
		return "<" + in.Expression + ">"
	})
	return w
}

func (w *talk) tool(name string, run func(args string) string) {
	w.tools[name] = run
	w.r.Tools = append(w.r.Tools, conversation.ToolSpec{Name: name})
}

func (w *talk) without(name string) {
	w.r.Tools = slices.DeleteFunc(w.r.Tools, func(s conversation.ToolSpec) bool { return s.Name == name })
}

// user says something; the step that reads it comes with run.
func (w *talk) user(text string) conversation.MessageID {
	w.messages++
	id := conversation.MessageID(fmt.Sprintf("m%d-%s", w.messages, w.r.Session))
	w.add(conversation.Entry{Role: conversation.RoleUser, Message: id, Text: text})
	w.unseen = true
	return id
}

func (w *talk) add(e conversation.Entry) {
	e.Task = w.r.Task
	w.r.Entries = append(w.r.Entries, e)
}

func (w *talk) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

// run asks the model until nothing is unseen, nudging as the machine does.
func (w *talk) run() *talk {
	w.t.Helper()
	for w.blocked == "" {
		if !w.unseen {
			if len(w.running) > 0 || len(w.open) > 0 || w.closed {
				return w
			}
			missing := w.openMessages()
			if len(missing) == 0 || w.nudges > 0 {
				w.note("end")
				w.closed = true
				return w
			}
			w.nudges++
			w.note("nudge")
			var ids []conversation.MessageID
			for _, m := range missing {
				ids = append(ids, m.Message)
			}
			w.add(conversation.Entry{Role: conversation.RoleUser, Text: "please", Nudge: ids})
		}
		w.step()
	}
	return w
}

func (w *talk) openMessages() []conversation.OpenMessage {
	var out []conversation.OpenMessage
	for _, e := range w.r.Entries {
		if e.Message != "" && !w.resolved[e.Message] {
			out = append(out, conversation.OpenMessage{Ordinal: len(out) + 1, Message: e.Message, Excerpt: e.Text})
		}
	}
	return out
}

// step is one model call.
func (w *talk) step() {
	w.t.Helper()
	if w.steps++; w.steps > 60 {
		w.t.Fatalf("the talk does not end:\n%s", strings.Join(w.log, "\n"))
	}
	w.unseen = false
	w.r.Step++
	for _, d := range w.running {
		if !d.late {
			d.late = true
			w.result(d.id, fmt.Sprintf("delegation %s (%s) started; its result follows", d.call, d.agent))
		}
	}
	w.r.Open = w.openMessages()
	w.r.Running = nil
	for _, d := range w.running {
		w.r.Running = append(w.r.Running, conversation.RunningCall{Call: d.call, ID: d.id, Tool: d.tool, Agent: d.agent})
	}
	d := w.script.answer(&w.r)
	if again := w.script.answer(&w.r); !reflect.DeepEqual(d, again) {
		w.t.Fatalf("the same request twice:\n%+v\n%+v", d, again)
	}
	if d.fail != "" {
		w.note("fail %s", d.fail)
		w.r.Attempt++
		w.unseen = true
		return
	}
	w.r.Attempt = 1
	if d.delay > 0 {
		w.delays = append(w.delays, d.delay.String())
	}
	w.answer(d)
}

func (w *talk) answer(d decision) {
	w.t.Helper()
	seen := map[string]bool{}
	for _, e := range w.r.Entries {
		for _, item := range e.Items {
			seen[item.ID] = true
		}
	}
	for _, item := range d.items {
		if seen[item.ID] {
			w.t.Fatalf("item id %s was used before", item.ID)
		}
		seen[item.ID] = true
	}
	w.add(conversation.Entry{Role: conversation.RoleAssistant, ResponseID: strings.Join(d.marks, " "), Items: d.items})
	if len(d.items) == 0 {
		w.note("nothing")
	}
	var texts []string
	calls := 0
	for _, item := range d.items {
		if item.Kind == conversation.ItemText {
			texts = append(texts, item.Text)
			continue
		}
		if item.Tool != conversation.ToolCover {
			calls++
		}
		w.call(item)
	}
	for _, text := range texts {
		if text == "NO_REPLY" {
			w.note("no reply")
			for _, m := range w.openMessages() {
				w.resolved[m.Message] = true
			}
			continue
		}
		w.note("text %s", text)
		w.final = append(w.final, text)
		if m := w.openMessages(); len(m) > 0 && strings.TrimSpace(text) != "" && calls == 0 {
			w.resolved[m[0].Message] = true
		}
	}
}

func (w *talk) result(id, text string) {
	for i, e := range w.r.Entries {
		if e.Role == conversation.RoleTool && e.CallID == id { // delegateParallel: a line each
			w.r.Entries[i].Text += "\n" + text
			return
		}
	}
	w.add(conversation.Entry{Role: conversation.RoleTool, CallID: id, Text: text})
}

func (w *talk) call(item conversation.Item) {
	var args struct {
		Message, InReplyTo, Question, As, Agent, Objective, Delegation, Text, MessageID string
		Blocking                                                                        bool
		Choices                                                                         []string
		Jobs                                                                            []struct{ Agent, Objective string }
	}
	_ = json.Unmarshal([]byte(item.Args), &args)
	switch item.Tool {
	case conversation.ToolRespond:
		w.note("partial %s: %s", ordinal(args.InReplyTo), args.Message)
		w.resolved[conversation.MessageID(args.InReplyTo)] = true
		w.result(item.ID, "delivered")
		w.unseen = true
	case conversation.ToolCover:
		note := fmt.Sprintf("cover %s %s", ordinal(args.MessageID), args.As)
		if args.As == "answer" {
			note += ": " + args.Question
			for q := range w.open {
				delete(w.open, q)
			}
		}
		w.note("%s", note)
		w.resolved[conversation.MessageID(args.MessageID)] = true
		w.result(item.ID, "covered")
	case conversation.ToolAsk:
		w.asked++
		w.note("ask %v: %s %v", args.Blocking, args.Question, args.Choices)
		if args.Blocking {
			w.blocked = item.ID
			return
		}
		w.open[conversation.QuestionID(fmt.Sprintf("q%d", w.asked))] = item.ID
		w.result(item.ID, continuing)
		w.unseen = true
	case conversation.ToolDelegate:
		w.delegate(item, args.Agent, args.Objective)
		w.play()
	case conversation.ToolDelegateParallel:
		for _, j := range args.Jobs {
			w.delegate(item, j.Agent, j.Objective)
		}
		w.play()
	case conversation.ToolAmend:
		w.note("amend %s: %s", args.Delegation, args.Text)
		result := "error: the delegation has ended and cannot be amended"
		for _, d := range w.running {
			if string(d.call) == args.Delegation {
				d.changes = append(d.changes, args.Text)
				result = "amended"
			}
		}
		w.result(item.ID, result)
		w.unseen = true
	default:
		run := w.tools[item.Tool]
		result := "error: there is no tool " + item.Tool
		if run != nil {
			result = run(item.Args)
		}
		w.note("tool %s %s -> %s", item.Tool, item.Args, result)
		w.result(item.ID, result)
		w.unseen = true
	}
}

func (w *talk) delegate(item conversation.Item, agent, objective string) {
	w.count++
	d := &delegation{
		call: conversation.CallID(fmt.Sprintf("d%d", w.count)), id: item.ID, tool: conversation.ToolDelegate,
		agent: conversation.AgentName(agent), objective: objective,
	}
	w.note("delegate %s %s: %s", d.call, agent, strings.ReplaceAll(objective, "\n", " / "))
	w.running = append(w.running, d)
}

// play ends delegations at once unless they are slow.
func (w *talk) play() {
	if w.slow {
		return
	}
	for _, d := range slices.Clone(w.running) {
		w.finish(string(d.call))
	}
}

// finish lets a delegate's own session run and brings its answer.
func (w *talk) finish(call string) *talk {
	w.t.Helper()
	for i, d := range w.running {
		if string(d.call) != call {
			continue
		}
		w.running = slices.Delete(w.running, i, i+1)
		text := w.delegated(d)
		switch {
		case d.late:
			w.add(conversation.Entry{
				Role: conversation.RoleUser, Delegation: d.call,
				Text: fmt.Sprintf("[delegation %s (%s) finished: %s]", d.call, d.agent, text),
			})
		default:
			many := false
			for _, other := range append(slices.Clone(w.running), d) {
				many = many || other != d && other.id == d.id
			}
			if many || slices.ContainsFunc(w.r.Entries, func(e conversation.Entry) bool { return e.Role == conversation.RoleTool && e.CallID == d.id }) {
				text = fmt.Sprintf("[%s %s] %s", d.call, d.agent, text)
			}
			w.result(d.id, text)
		}
		w.unseen = true
		return w
	}
	w.t.Fatalf("no delegation %s runs", call)
	return w
}

// delegated plays the sub-session: its objective first, its changes after the
// first answer was drafted.
func (w *talk) delegated(d *delegation) string {
	child := newTalk(w.t)
	child.script = w.script
	child.r.Session = w.r.Session + "/" + conversation.SessionID(d.call)
	child.r.Task = "t1-" + conversation.TaskID(child.r.Session)
	child.r.Agent, child.r.Depth = d.agent, w.r.Depth+1
	child.user(d.objective)
	child.step()
	for _, text := range d.changes {
		id := child.user(text)
		child.resolved[id] = true
	}
	child.run()
	w.delays = append(w.delays, child.delays...)
	if len(child.final) == 0 {
		return "(no answer)"
	}
	return child.final[len(child.final)-1]
}

// reply answers the open blocking question.
func (w *talk) reply(text string) *talk {
	id := w.blocked
	w.blocked = ""
	w.result(id, text)
	w.unseen = true
	return w
}

// answerTo answers a non-blocking question by its id.
func (w *talk) answerTo(q conversation.QuestionID, text string) *talk {
	delete(w.open, q)
	w.add(conversation.Entry{Role: conversation.RoleUser, Question: q, Text: fmt.Sprintf("[answer to question %s: %s]", q, text)})
	w.unseen = true
	return w
}

func (w *talk) expect(want ...string) {
	w.t.Helper()
	if !slices.Equal(w.log, want) {
		w.t.Fatalf("got:\n  %s\nwant:\n  %s", strings.Join(w.log, "\n  "), strings.Join(want, "\n  "))
	}
}

func ordinal(id string) string {
	n, _, _ := strings.Cut(id, "-")
	return n
}

package scripted

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/persistence/persistencetest"
)

// play is a session of the real machine with this model. Model calls that are
// held back go on when they are let go.
type play struct {
	*machinetest.World
	t      *testing.T
	script *script
	key    conversation.SessionKey // of the session that is looked at

	hold   bool // model calls of delegations wait for release or finish
	manual bool // those of the session that is looked at wait for step
	held   []*machinetest.Session
	let    *machinetest.Session // may go on although it is held

	bend   func(*decision)                     // changes an answer
	tools  map[string]func(args string) string // "" = no result yet
	author conversation.UserID                 // "" = u
	said   int
	last   conversation.Request // of the session that is looked at
	delays []string
}

var root = conversation.SessionKey{Tenant: "t", Session: "s1"}

func newPlay(t *testing.T, hold bool) *play {
	t.Helper()
	s, err := readScript(embedded, true)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{World: machinetest.New(persistencetest.NewMemory()), t: t, script: s, key: root, hold: hold, tools: map[string]func(string) string{}}
	for name, profile := range p.Rules.Agents {
		profile.Names = true
		p.Rules.Agents[name] = profile
	}
	p.World.Model = p.model
	p.World.Tool = func(_ *machinetest.Session, run conversation.RunTool) (string, bool) {
		result := p.tools[run.Tool](run.Args)
		return result, result != ""
	}
	p.tool("clock", func(string) string { return "12:00" })
	p.tool("calculate", func(args string) string {
		var in struct{ Expression string }
		if json.Unmarshal([]byte(args), &in) != nil || in.Expression == "" {
			return "error: expression is missing"
		}
		return "<" + in.Expression + ">"
	})
	p.do(conversation.Create{Owner: "u"})
	return p
}

// tool adds a tool, before anything is said.
func (p *play) tool(name string, run func(args string) string) {
	p.tools[name] = run
	p.Rules.Tools[name] = policy.ToolRule{Spec: conversation.ToolSpec{Name: name, Idempotent: true}}
}

// delegate goes on in a sub-session that has just been told its objective.
func (p *play) delegate(objective string) *play {
	p.key.Session += "/d1"
	p.do(conversation.Tell{Agent: "developer", Owner: "u", Objective: objective})
	return p
}

func (p *play) session() *machinetest.Session { return p.Session(p.key) }

func (p *play) do(c conversation.Command) {
	p.t.Helper()
	if _, err := p.Do(p.key, c); err != nil {
		p.t.Fatal(err)
	}
}

// say says messages that the model reads at once, in one step if it can.
func (p *play) say(texts ...string) *play {
	p.t.Helper()
	p.Full = true
	for _, text := range texts {
		p.said++
		p.Tell(p.key, conversation.Say{
			Author: cmp.Or(p.author, "u"), Via: p.via(), ClientMsgID: conversation.ClientMsgID(strconv.Itoa(p.said)), Text: text,
		}, func(_ conversation.Receipt, err error) {
			if err != nil {
				p.t.Fatal(err)
			}
		})
	}
	p.Full = false
	p.do(conversation.SlotGranted{})
	return p
}

func (p *play) via() conversation.Via {
	if p.key.Session.Depth() > 0 {
		return conversation.ViaDelegation
	}
	return conversation.ViaHTTP
}

// answer answers a question by its id.
func (p *play) answer(q conversation.QuestionID, text string) *play {
	p.t.Helper()
	p.said++
	p.do(conversation.Answer{Author: "u", ClientMsgID: conversation.ClientMsgID(strconv.Itoa(p.said)), Question: q, Text: text})
	return p
}

// model answers a call by the script: the same request always in the same way.
func (p *play) model(s *machinetest.Session, r conversation.Request) conversation.Command {
	looked := s.Key == p.key
	if p.let != s && (looked && p.manual || !looked && p.hold) {
		p.held = append(p.held, s)
		return nil
	}
	p.let = nil
	d := p.script.answer(&r)
	if again := p.script.answer(&r); !reflect.DeepEqual(d, again) {
		p.t.Fatalf("the same request twice:\n%+v\n%+v", d, again)
	}
	if looked {
		p.last = r
	}
	if p.bend != nil {
		p.bend(&d)
	}
	if d.delay > 0 {
		p.delays = append(p.delays, d.delay.String())
	}
	if d.fail != "" {
		return conversation.ModelFailed{Step: r.Step, Attempt: r.Attempt, Failure: conversation.Failure{Code: conversation.Timeout, Message: d.fail}}
	}
	used := map[string]bool{}
	for _, e := range r.Entries {
		for _, item := range e.Items {
			used[item.ID] = true
		}
	}
	for _, item := range d.items {
		if item.Kind == conversation.ItemCall && used[item.ID] {
			p.t.Fatalf("item id %s was used before", item.ID)
		}
		used[item.ID] = true
	}
	return conversation.ModelAnswered{
		Step: r.Step, Attempt: r.Attempt, Answer: conversation.ModelAnswer{ResponseID: strings.Join(d.marks, " "), Items: d.items},
	}
}

// step lets one held model call of the session that is looked at go on.
func (p *play) step() { p.letGo(p.session()) }

func (p *play) letGo(s *machinetest.Session) {
	p.held = slices.DeleteFunc(p.held, func(h *machinetest.Session) bool { return h == s })
	p.let = s
	s.Go()
	p.let = nil
}

// release lets delegations go on to their ends.
func (p *play) release() *play {
	for len(p.held) > 0 {
		p.letGo(p.held[0])
	}
	return p
}

// finish lets one delegation go on to its end.
func (p *play) finish(call string) *play {
	child := p.Session(conversation.SessionKey{Tenant: p.key.Tenant, Session: p.key.Session + "/" + conversation.SessionID(call)})
	for slices.Contains(p.held, child) {
		p.letGo(child)
	}
	return p
}

// happened compares the events that tell what became of messages and questions.
func (p *play) happened(want ...string) {
	p.t.Helper()
	p.equal(p.events(), want)
}

// did compares what the model did, a line for each part, call and text.
func (p *play) did(want ...string) {
	p.t.Helper()
	p.equal(p.log(), want)
}

func (p *play) equal(got, want []string) {
	p.t.Helper()
	if !slices.Equal(got, want) {
		p.t.Fatalf("got:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (p *play) nudges() (n int) {
	for _, e := range p.session().Events() {
		if _, is := e.Body.(conversation.CoverageNudge); is {
			n++
		}
	}
	return n
}

func (p *play) events() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, e := range p.session().Events() {
		switch b := e.Body.(type) {
		case conversation.MessageResolved:
			add("%s %s", ordinal(b.Message), b.How)
		case conversation.PartialResponse:
			add("partial %s: %s", ordinal(b.InReplyTo), b.Text)
		case conversation.Response:
			again := ""
			if b.Promoted {
				again = " again"
			}
			add("response%s %s: %s", again, ordinal(b.InReplyTo), b.Text)
		case conversation.Asked:
			add("question %s", b.Text)
		case conversation.QuestionAnswered:
			add("answered %s", b.Text)
		case conversation.QuestionClosed:
			add("question %s", b.Reason)
		case conversation.DelegationStarted:
			add("%s %s: %s", b.Delegation, b.Agent, strings.ReplaceAll(b.Objective, "\n", " / "))
		case conversation.CoverageNudge:
			add("nudge")
		case conversation.TaskStatusChanged:
			if b.New.Ended() || b.New == conversation.TaskAwaiting {
				add("%s", b.New)
			}
		}
	}
	return lines
}

func (p *play) log() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	running, delegations := map[conversation.CallID]conversation.ToolStarted{}, 0
	for _, e := range p.session().Events() {
		switch b := e.Body.(type) {
		case conversation.StepStarted:
			if b.Attempt > 1 && b.Error != nil {
				add("fail %s", b.Error.Message)
			}
		case conversation.StepFinished:
			if b.Outcome == conversation.StepOK {
				lines = append(lines, answered(b, &delegations)...)
			}
		case conversation.ToolStarted:
			running[b.Call] = b
		case conversation.ToolFinished:
			if s := running[b.Call]; !slices.Contains(engineTools, s.Tool) {
				add("tool %s %s -> %s", s.Tool, s.Args, b.Summary)
			}
		case conversation.CoverageNudge:
			add("nudge")
		case conversation.TaskStatusChanged:
			if b.New.Ended() {
				add("end")
			}
		}
	}
	return lines
}

type jobArgs struct{ Agent, Objective string }

// answered is what an answer holds, in its order.
func answered(b conversation.StepFinished, delegations *int) (lines []string) {
	if len(b.Items) == 0 {
		return []string{"nothing"}
	}
	for _, item := range b.Items {
		var args struct {
			Message, InReplyTo, Question, As, Delegation, Text, MessageID string
			Blocking                                                      bool
			Choices                                                       []string
			jobArgs
			Jobs []jobArgs
		}
		_ = json.Unmarshal([]byte(item.Args), &args)
		line := ""
		switch item.Tool {
		case "":
			if line = "text " + item.Text; item.Text == "NO_REPLY" {
				line = "no reply"
			}
		case conversation.ToolRespond:
			line = fmt.Sprintf("partial %s: %s", ordinal(conversation.MessageID(args.InReplyTo)), args.Message)
		case conversation.ToolCover:
			if line = fmt.Sprintf("cover %s %s", ordinal(conversation.MessageID(args.MessageID)), args.As); args.As == "answer" {
				line += ": " + args.Question
			}
		case conversation.ToolAsk:
			line = fmt.Sprintf("ask %v: %s %v", args.Blocking, args.Question, args.Choices)
		case conversation.ToolDelegate, conversation.ToolDelegateParallel:
			for _, j := range append(args.Jobs, args.jobArgs) {
				if j.Agent != "" {
					*delegations++
					lines = append(lines, fmt.Sprintf("delegate d%d %s: %s", *delegations, j.Agent, strings.ReplaceAll(j.Objective, "\n", " / ")))
				}
			}
		case conversation.ToolAmend:
			line = fmt.Sprintf("amend %s: %s", args.Delegation, args.Text)
		default: // a call that was refused has its result at once
			for _, r := range b.Results {
				if r.ID == item.ID {
					line = fmt.Sprintf("tool %s %s -> %s", item.Tool, item.Args, r.Text)
				}
			}
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

func ordinal(id conversation.MessageID) string {
	n, _, _ := strings.Cut(string(id), "-")
	return n
}

var engineTools = []string{
	conversation.ToolRespond, conversation.ToolAsk, conversation.ToolDelegate,
	conversation.ToolDelegateParallel, conversation.ToolAmend, conversation.ToolCover,
}

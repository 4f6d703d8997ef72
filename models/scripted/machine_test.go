package scripted

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/transcript"
)

// play is the real machine with this model: a shell without a store and
// without time, in one goroutine. Model calls of delegations are held back
// until they are let go.
type play struct {
	t        *testing.T
	script   *script
	rules    conversation.Rules
	now      time.Time
	sessions map[conversation.SessionID]*stage
	todo     []func()
	held     []func() // model calls of delegations
	hold     bool
	events   []string // of the root, the interesting ones
	nudges   int
	asked    []conversation.Asked
	said     int
}

type stage struct {
	key        conversation.SessionKey
	machine    *machine.Session
	transcript *transcript.Transcript
	answers    map[conversation.Seq]string // the texts of final responses, which reports may only refer to
}

func newPlay(t *testing.T, hold bool) *play {
	t.Helper()
	s, err := readScript(embedded, true)
	if err != nil {
		t.Fatal(err)
	}
	p := &play{t: t, script: s, hold: hold, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), sessions: map[conversation.SessionID]*stage{}}
	p.rules = conversation.Rules{Policy: conversation.DefaultPolicy(), Agents: map[conversation.AgentName]conversation.Profile{}, Tools: map[string]conversation.ToolRule{}}
	for _, name := range []conversation.AgentName{conversation.Coordinator, "developer", "researcher", "communicator"} {
		p.rules.Agents[name] = conversation.Profile{
			Name: name, Tools: []string{"*"}, MayAsk: true, Delegates: true, EngineTools: true, Delegable: name != conversation.Coordinator,
		}
	}
	for _, name := range []string{"clock", "calculate"} {
		p.rules.Tools[name] = conversation.ToolRule{Spec: conversation.ToolSpec{Name: name, Idempotent: true}}
	}
	p.do(p.stage("s1"), conversation.Create{Owner: "u"})
	return p
}

func (p *play) stage(id conversation.SessionID) *stage {
	s := p.sessions[id]
	if s == nil {
		key := conversation.SessionKey{Tenant: "t", Session: id}
		s = &stage{key: key, machine: machine.New(key, &p.rules), transcript: transcript.New(), answers: map[conversation.Seq]string{}}
		p.sessions[id] = s
	}
	return s
}

func (p *play) do(s *stage, c conversation.Command) conversation.Decided {
	p.now = p.now.Add(time.Millisecond)
	d := s.machine.Decide(conversation.Inputs{At: p.now, Slot: true}, c)
	for _, e := range d.Events {
		s.transcript.Add(e)
		if b, ok := e.Body.(conversation.Response); ok {
			s.answers[e.Seq] = b.Text
		}
		p.note(s, e)
	}
	for _, e := range d.Release {
		p.effect(s, e)
	}
	for _, e := range s.machine.Durable(d.Head) {
		p.effect(s, e)
	}
	return d
}

func (p *play) note(s *stage, e conversation.Event) {
	if s.key.Session.Depth() > 0 {
		return
	}
	switch b := e.Body.(type) {
	case conversation.MessageResolved:
		p.events = append(p.events, fmt.Sprintf("%s %s", ordinal(string(b.Message)), b.How))
	case conversation.PartialResponse:
		p.events = append(p.events, fmt.Sprintf("partial %s: %s", ordinal(string(b.InReplyTo)), b.Text))
	case conversation.Response:
		promoted := ""
		if b.Promoted {
			promoted = " again"
		}
		p.events = append(p.events, fmt.Sprintf("response%s %s: %s", promoted, ordinal(string(b.InReplyTo)), b.Text))
	case conversation.Asked:
		p.asked = append(p.asked, b)
		p.events = append(p.events, "question "+b.Text)
	case conversation.QuestionAnswered:
		p.events = append(p.events, "answered "+b.Text)
	case conversation.QuestionClosed:
		p.events = append(p.events, "question "+b.Reason.String())
	case conversation.DelegationStarted:
		p.events = append(p.events, fmt.Sprintf("%s %s: %s", b.Delegation, b.Agent, strings.ReplaceAll(b.Objective, "\n", " / ")))
	case conversation.CoverageNudge:
		p.nudges++
		p.events = append(p.events, "nudge")
	case conversation.TaskStatusChanged:
		if b.New.Ended() || b.New == conversation.TaskAwaiting {
			p.events = append(p.events, b.New.String())
		}
	}
}

func (p *play) effect(s *stage, e conversation.Effect) {
	later := func(f func()) { p.todo = append(p.todo, f) }
	parent, call, _ := s.key.Session.Parent()
	child := func(call conversation.CallID) *stage {
		return p.stage(s.key.Session + "/" + conversation.SessionID(call))
	}
	switch e := e.(type) {
	case conversation.AskModel:
		ask := func() {
			if slices.Contains(s.machine.Outstanding(p.now), conversation.Effect(e)) { // a cancel may have come meanwhile
				p.model(s, e)
			}
		}
		if p.hold && s.key.Session.Depth() > 0 {
			p.held = append(p.held, ask)
			return
		}
		later(ask)
	case conversation.RunTool:
		later(func() {
			p.do(s, conversation.ToolDone{Call: e.Call, Status: conversation.CallOK, Result: e.Tool + " done"})
		})
	case conversation.StartDelegation:
		later(func() {
			if !e.Stop {
				p.do(p.stage(e.Session), conversation.Tell{Agent: e.Agent, Owner: "u", Objective: e.Objective})
			}
		})
	case conversation.AmendDelegation:
		later(func() {
			done := conversation.ToolDone{Call: e.Call, Status: conversation.CallOK, Result: "amended"}
			say := conversation.Say{Author: "u", Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID(e.Call), Text: e.Text}
			if d := p.do(child(e.Delegation), say); d.Err != nil {
				done.Status, done.Result = conversation.CallError, "error: "+d.Err.Message
			}
			p.do(s, done)
		})
	case conversation.Report:
		later(func() {
			summary := e.Summary
			if summary == "" {
				summary = s.answers[e.Seq]
			}
			p.do(p.stage(parent), conversation.DelegationDone{Delegation: call, Status: e.Status, Summary: summary})
		})
	case conversation.ReportQuestion:
		later(func() {
			p.do(p.stage(parent), conversation.DelegationAsked{Delegation: call, Question: e.Asked.Question, Text: e.Asked.Text, Choices: e.Asked.Choices})
		})
	case conversation.RouteAnswer:
		later(func() {
			p.do(child(e.Delegation), conversation.Answer{
				Author: "u", Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID("a" + e.Question), Question: e.Question, Text: e.Text,
			})
		})
	case conversation.StopCall:
		later(func() {
			p.do(s, conversation.ToolDone{Call: e.Call, Status: conversation.CallCancelled, Result: "cancelled"})
			p.do(s, conversation.DelegationDone{Delegation: e.Call, Status: conversation.CallCancelled, Summary: "cancelled"})
		})
	}
}

func (p *play) model(s *stage, e conversation.AskModel) {
	r := s.transcript.Request(s.key, &p.rules, e)
	d := p.script.answer(&r)
	if d.fail != "" {
		p.do(s, conversation.ModelFailed{Step: e.Step, Attempt: e.Attempt, Failure: conversation.Failure{Code: conversation.Timeout, Message: d.fail}})
		p.now = p.now.Add(time.Minute) // the back-off is over
		p.todo = append(p.todo, func() { p.do(s, conversation.Tick{}) })
		return
	}
	p.do(s, conversation.ModelAnswered{
		Step: e.Step, Attempt: e.Attempt,
		Answer: conversation.ModelAnswer{ResponseID: strings.Join(d.marks, " "), Items: d.items},
	})
}

// rest runs everything that is not held back.
func (p *play) rest() {
	p.t.Helper()
	for n := 0; len(p.todo) > 0; n++ {
		if n > 5000 {
			p.t.Fatalf("no rest:\n%s", strings.Join(p.events, "\n"))
		}
		next := p.todo[0]
		p.todo = p.todo[1:]
		next()
	}
}

func (p *play) say(text string) {
	p.t.Helper()
	p.said++
	if d := p.do(p.stage("s1"), conversation.Say{Author: "u", Via: conversation.ViaHTTP, ClientMsgID: conversation.ClientMsgID(strconv.Itoa(p.said)), Text: text}); d.Err != nil {
		p.t.Fatal(d.Err)
	}
	p.rest()
}

// release lets the delegations go on to their end.
func (p *play) release() {
	p.t.Helper()
	for len(p.held) > 0 {
		next := p.held[0]
		p.held = p.held[1:]
		next()
		p.rest()
	}
}

func (p *play) expect(want ...string) {
	p.t.Helper()
	if !slices.Equal(p.events, want) {
		p.t.Fatalf("got:\n  %s\nwant:\n  %s", strings.Join(p.events, "\n  "), strings.Join(want, "\n  "))
	}
}

// The worked examples with the real machine and transcript.
func TestWorkedExamplesOnTheMachine(t *testing.T) {
	const (
		fixed = "The login bug is fixed: the session is renewed after sign-in. (The scripted developer changed no code.)"
		which = "Which auth provider, OAuth or JWT?"
		sent  = "The report is sent to Max. (The scripted communicator sent nothing.)"
	)
	changed := fixed + " Changed on the way: Actually use OAuth instead."
	t.Run("D-18 two independent tasks", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Fix the login bug")
		p.say("What's the weather?")
		p.release()
		p.expect("d1 developer: Fix the login bug",
			"partial m2: I cannot tell you the weather: no weather tool is configured here.", "m2 answered",
			"response m1: "+fixed, "m1 answered", "COMPLETE")
	})
	t.Run("D-17 amendment", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Fix the login bug")
		p.say("Actually use OAuth instead")
		p.release()
		p.expect("d1 developer: Fix the login bug", "m2 merged", "response m1: "+changed, "m1 answered", "COMPLETE")
	})
	t.Run("D-17 amendment while the delegate answers", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Fix the login bug")
		p.now = p.now.Add(time.Second)
		child := p.held
		p.held = nil
		p.say("Actually use OAuth instead") // the delegate's step is open: it has not read this
		for _, ask := range child {
			ask()
		}
		p.rest()
		p.release()
		p.expect("d1 developer: Fix the login bug", "m2 merged", "response m1: "+changed, "m1 answered", "COMPLETE")
	})
	for _, auth := range []string{"JWT", "OAuth"} {
		t.Run("D-19 parallel questions "+auth, func(t *testing.T) {
			p := newPlay(t, true)
			p.say("Set up auth")
			p.say("Send the report to Max")
			p.release()
			p.say(auth)
			p.release()
			p.expect("question "+which, "AWAITING_RESPONSE",
				"d1 communicator: Send the report to Max", "partial m2: "+sent, "m2 answered", "AWAITING_RESPONSE",
				"answered "+auth, "m3 merged", "d2 developer: Set up auth with "+auth,
				"response m1: Auth is set up with "+auth+". (The scripted developer changed no code.)", "m1 answered", "COMPLETE")
		})
	}
	t.Run("D-19 the answer comes while the report is under way", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("Set up auth")
		p.say("Send the report to Max")
		p.say("JWT")
		p.release()
		if p.nudges > 0 || !slices.Contains(p.events, "m1 answered") || !slices.Contains(p.events, "m2 answered") || !slices.Contains(p.events, "m3 merged") {
			t.Fatalf("%s", strings.Join(p.events, "\n"))
		}
	})
	t.Run("N-04 answered by the question's id", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("Set up auth")
		p.do(p.stage("s1"), conversation.Answer{Author: "u", ClientMsgID: "x", Question: p.asked[0].Question, Text: "JWT"})
		p.rest()
		p.expect("question "+which, "AWAITING_RESPONSE", "answered JWT", "m2 merged", "d1 developer: Set up auth with JWT",
			"response m1: Auth is set up with JWT. (The scripted developer changed no code.)", "m1 answered", "COMPLETE")
	})
	t.Run("D-12 a partial answer alone is promoted", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("/partial A")
		p.expect("partial m1: A", "m1 answered", "response again m1: A", "COMPLETE")
	})
	t.Run("D-07 several messages, separate answers", func(t *testing.T) {
		p := newPlay(t, true)
		p.say("/parallel researcher /say A || developer /say B\n/say $result")
		p.say("/say hi")
		p.release()
		p.expect("d1 researcher: /say A", "d2 developer: /say B", "partial m2: hi", "m2 answered",
			"response m1: [d1 researcher] A\n[d2 developer] B", "m1 answered", "COMPLETE")
	})
	t.Run("N-04 a question asked as a tool", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("/tool askUser {\"question\":\"Which?\"}\n/say got $reply")
		p.say("A")
		p.expect("question Which?", "AWAITING_RESPONSE", "answered A", "m2 merged", "response m1: got A", "m1 answered", "COMPLETE")
		p = newPlay(t, false)
		p.say("/tool askUser {\"question\":\"Which?\",\"blocking\":false}\n/say got $reply")
		p.do(p.stage("s1"), conversation.Answer{Author: "u", ClientMsgID: "x", Question: p.asked[0].Question, Text: "B"})
		p.rest()
		p.expect("question Which?", "AWAITING_RESPONSE", "answered B", "m2 merged", "response m1: got B", "m1 answered", "COMPLETE")
	})
	t.Run("N-04 a delegate's question", func(t *testing.T) {
		p := newPlay(t, false)
		p.say("/delegate researcher /ask Which? [A/B] && /say took $reply\n/say $result")
		p.say("A")
		p.expect("d1 researcher: /ask Which? [A/B] && /say took $reply", "question Which?", "AWAITING_RESPONSE",
			"answered A", "m2 merged", "response m1: took A", "m1 answered", "COMPLETE")
	})
}

// Random programs on the real machine: everything ends, and each message gets
// exactly one end. N-01.
func TestRandomProgramsOnTheMachine(t *testing.T) {
	lines := []string{
		"/say A", "/partial B", "/parts C | D", "/ask E?", "/askopen What is F?", "/askopen Which? [A/B]", "/say $reply", "/partial $result",
		"/tool clock {}", "/tool none", "/delegate researcher /say G", "/delegate developer fix it", "/parallel researcher /ask H? && /say $reply || developer /partial I",
		"/stream 3 x", "/cover 1 duplicate", "/cover 2 dismissed", "/amend 1 /say J", "/ignore", "/empty", "/noreply", "/fail 500 2", "/fail 429", "/wait 1s", "/loop", "nonsense",
	}
	plain := []string{"Fix the login bug", "Actually use OAuth instead", "Set up auth", "JWT", "Send the report to Max", "What's the weather?", "1+1", "hello", "blue"}
	seed := rand.Uint64()
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		p := newPlay(t, round%2 == 0)
		var program []string
		for range 1 + random.IntN(5) {
			text := plain[random.IntN(len(plain))]
			if random.IntN(2) == 0 {
				var picked []string
				for range 1 + random.IntN(5) {
					picked = append(picked, lines[random.IntN(len(lines))])
				}
				text = strings.Join(picked, "\n")
			}
			program = append(program, text)
			p.say(text)
			if random.IntN(3) == 0 {
				p.release()
			}
		}
		for range 50 { // a friendly world: delegates end, questions are answered
			p.release()
			open := p.stage("s1").machine.View().Questions
			if len(open) == 0 {
				break
			}
			p.said++
			p.do(p.stage("s1"), conversation.Answer{
				Author: "u", ClientMsgID: conversation.ClientMsgID(strconv.Itoa(p.said)), Question: open[0].Asked.Question, Text: "A",
			})
			p.rest()
		}
		if v := p.stage("s1").machine.View(); len(v.Tasks) > 0 || len(v.Inbox) > 0 {
			t.Fatalf("seed %d (PARLEY_SEED=%d go test -run RandomPrograms ./models/scripted): %+v\nafter %q\n%s",
				seed, seed, v.Tasks, program, strings.Join(p.events, "\n"))
		}
	}
}

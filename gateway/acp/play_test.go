package acp_test

import (
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

const task = gatewaytest.Task

// play is what happens in a session, in order: events of a task, and what streams beside them.
type play []any // conversation.EventBody, conversation.Ephemeral

// play has it happen, and then an event that a client can wait for.
func (r *rig) play(key conversation.SessionKey, p play) {
	r.t.Helper()
	for _, x := range append(slices.Clone(p), retitled("the end")) {
		switch b := x.(type) {
		case conversation.EventBody:
			r.sessions.Commit(key, conversation.Event{At: gatewaytest.Epoch, Task: task, Body: b})
		case conversation.Ephemeral:
			r.sessions.Show(key, b)
		}
	}
}

const theEnd = `"title":"the end"`

func retitled(title string) conversation.SessionUpdated {
	return conversation.SessionUpdated{Title: &title}
}

// What plays are made of.
var status, says, step, delta = gatewaytest.Status, gatewaytest.Says, gatewaytest.Step, gatewaytest.Delta

func stepDone(n int) conversation.StepFinished { return gatewaytest.StepDone(n, 1) }

func accepted(id, client, text string) conversation.MessageAccepted {
	return conversation.MessageAccepted{
		Message: conversation.MessageID(id), ClientMsgID: conversation.ClientMsgID(client), Author: "local", Text: text,
		Disposition: conversation.Started, Via: conversation.ViaWebSocket,
	}
}

const (
	queued, running, awaiting = conversation.TaskQueued, conversation.TaskRunning, conversation.TaskAwaiting
	complete, failed          = conversation.TaskComplete, conversation.TaskError
)

var (
	begins  = play{accepted("m1-S", "k1", "Go"), status(queued, running), step(1, 1)}
	ends    = play{gatewaytest.Answered("m1-S"), status(running, complete)}
	percent = 40
	blue    = "blue"
)

func of(plays ...play) play { return slices.Concat(plays...) }

// plays are one for each thing that the protocol has to say.
var plays = map[string]play{
	"answer": of(begins, play{
		delta("1.1.0", 0, "Hel"), delta("1.1.0", 3, "lo, \"w"), delta("1.1.0", 9, "örld\""), stepDone(1),
		conversation.Response{Part: says(1, "Hello, \"wörld\"", "1.1.0")},
	}, ends),
	"several_texts": of(begins, play{
		delta("1.1.0", 0, "One"), stepDone(1), conversation.PartialResponse{Part: says(1, "One", "1.1.0")},
		conversation.PartialResponse{Part: says(2, "Two", "1.1.1")}, step(2, 1), delta("2.1.0", 0, "Three"), stepDone(2),
		conversation.Response{Part: says(3, "Three", "2.1.0")},
	}, ends),
	"dropped": of(begins, play{
		delta("1.1.0", 0, "Half"), conversation.StepStarted{Step: 1, Attempt: 2, Cause: conversation.CauseError}, delta("1.2.0", 0, "Whole"), stepDone(1),
		conversation.Response{Part: says(1, "Whole", "1.2.0")},
	}, ends),
	"tools": of(begins, play{
		stepDone(1), conversation.ToolStarted{Call: "c1", Tool: "clock", Args: `{ "zone": "UTC" }`},
		conversation.Progress{Task: task, Call: "c1", Note: "looking", Percent: &percent},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "noon"},
		conversation.ToolStarted{Call: "c2", Tool: "clock"}, conversation.ToolFinished{Call: "c2", Status: conversation.CallTimeout, Summary: "too late"},
		conversation.DelegationStarted{Delegation: "d1", Agent: "developer", Objective: "Build\n it", Session: "S/d1"},
		conversation.DelegationFinished{Delegation: "d1", Status: conversation.CallOK, Summary: `{"built":true}`},
	}),
	"approvals": of(begins, play{
		stepDone(1), approval("q1", "c1"), status(running, awaiting),
		conversation.MessageAccepted{Message: "m2-S", Author: "bob", Text: "yes", Question: "q1", Disposition: conversation.Answered, Via: conversation.ViaSlack},
		conversation.QuestionAnswered{Question: "q1", Message: "m2-S", Text: "yes"}, conversation.ToolStarted{Call: "c1", Tool: "deploy", Args: `{"host":"a"}`},
		conversation.ToolFinished{Call: "c1", Status: conversation.CallOK},
		approval("q2", "c2"), conversation.QuestionClosed{Question: "q2", Reason: conversation.QuestionCancelled},
	}),
	"questions": of(begins, play{
		stepDone(1), conversation.Asked{Question: "q1", Text: "Which?", Blocking: true, Choices: []string{"red", "blue"}, Default: &blue, ExpiresAt: gatewaytest.Epoch.AddDate(0, 0, 1)},
		status(running, awaiting),
		conversation.MessageAccepted{Message: "m2-S", ClientMsgID: "acp:ed:answer:q1", Author: "local", Text: "red", Question: "q1", Disposition: conversation.Answered, Via: conversation.ViaACP},
		conversation.QuestionAnswered{Question: "q1", Message: "m2-S", Text: "red"},
		conversation.Asked{Question: "q2", Text: "And?"}, conversation.QuestionClosed{Question: "q2", Reason: conversation.QuestionExpired},
	}),
	"callers_tools": of(begins, play{
		stepDone(1), conversation.ToolStarted{Call: "c1", Tool: "weather", Args: `{"city":"Oslo"}`, Caller: true},
		conversation.Asked{Question: "q1", Text: "weather is yours to run.", Blocking: true, Call: "c1"}, status(running, awaiting),
		conversation.QuestionAnswered{Question: "q1", Text: "rain"}, conversation.ToolFinished{Call: "c1", Status: conversation.CallOK, Summary: "rain"},
	}),
	"others": {
		conversation.MessageAccepted{Message: "m1-S", Author: "bob", AuthorName: "Bob", Text: "Look", Via: conversation.ViaSlack, Disposition: conversation.Queued},
		accepted("m2-S", "acp:ed:1", "what one has said oneself"), accepted("m3-S", "acp:other:1", "in another window"),
		conversation.MessageResolved{Message: "m1-S", How: conversation.ResolvedWithdrawn},
	},
	"error": of(begins, play{
		stepDone(1), conversation.Response{Part: says(1, "It failed.", ""), ResponseKind: conversation.ResponseError},
		conversation.TaskStatusChanged{Trigger: "m1-S", Old: running, New: failed, Error: &conversation.Failure{Code: conversation.Unavailable, Message: "no model"}},
	}),
}

func approval(q conversation.QuestionID, c conversation.CallID) conversation.Asked {
	return gatewaytest.Approval(q, c, "deploy", `{"host":"a"}`)
}

// What a client is sent of each, live, byte for byte; and a client that reads it afterwards gets
// the same texts, calls and words.
func TestPlays(t *testing.T) {
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			r := begin(t)
			key := r.sessions.Open("S", "local")
			c := r.editor("", forms)
			c.do("session/resume", `{"sessionId":"S","cwd":"/"}`)
			r.play(key, p)
			live := c.until(theEnd)
			gatewaytest.Golden(t, "plays/"+name+".txt", []byte(strings.Join(live, "\n")+"\n"))
			later := r.editor("", forms)
			_, loaded := later.do("session/load", `{"sessionId":"S","cwd":"/","mcpServers":[]}`)
			gatewaytest.Golden(t, "plays/"+name+".loaded.txt", []byte(strings.Join(loaded, "\n")+"\n"))
		})
	}
}

// Who may not see what tools do does not.
func TestRedacted(t *testing.T) {
	r := begin(t, withKeys)
	key := r.sessions.Open("S", "ann")
	c := r.editor("low", forms)
	c.do("session/resume", `{"sessionId":"S","cwd":"/"}`)
	r.play(key, of(plays["tools"], plays["approvals"]))
	for _, frame := range c.until(theEnd) {
		for _, secret := range []string{"zone", "noon", "too late", "Build", "built", "host"} {
			if strings.Contains(frame, secret) {
				t.Errorf("%s is in %s", secret, frame)
			}
		}
	}
	r.play(key, play{approval("q9", "c9")})
	c.until(theEnd)
	later := r.editor("low", forms)
	later.do("session/load", `{"sessionId":"S","cwd":"/","mcpServers":[]}`)
	if asked := later.read(); !strings.Contains(asked, `"id":"S#q9"`) || !strings.Contains(asked, `"rawInput":`+protocol.RedactedJSON) {
		t.Error(asked)
	}
}

// updates are what a client was told, without where it stood: what is one text comes as one.
func updates(frames []string) (told []string) {
	texts := map[string]int{}
	for _, f := range frames {
		if !strings.Contains(f, `"session/update"`) {
			continue
		}
		head, rest, _ := strings.Cut(f, `"cursor":"`)
		_, tail, _ := strings.Cut(rest, `"`)
		text, isText := between(head, `"text":`, `},"messageId":`)
		id, _ := between(head, `"messageId":"`, `"`)
		if isText && strings.Contains(f, "agent_message_chunk") && !strings.Contains(tail, "dropped") {
			text = strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
			if i, is := texts[id]; is {
				told[i] += text
				continue
			}
			texts[id] = len(told)
			told = append(told, id+": "+text)
			continue
		}
		told = append(told, head+tail)
	}
	return told
}

func between(s, begin, end string) (string, bool) {
	_, rest, found := strings.Cut(s, begin)
	text, _, is := strings.Cut(rest, end)
	return text, found && is
}

// fleeting are texts of which nothing came.
var fleeting = map[string]string{"dropped": "1.1.0-t1-S"}

// A client that goes on behind any update is told the rest, without a gap or a double: also what
// streamed between.
func TestResumesAnywhere(t *testing.T) {
	r := begin(t)
	for name, p := range plays {
		t.Run(name, func(t *testing.T) {
			key := r.sessions.Open(strings.ReplaceAll(name, "_", "-"), "local")
			id := string(key.Session)
			c := r.editor("", `{}`)
			c.do("session/resume", `{"sessionId":"`+id+`","cwd":"/"}`)
			r.play(key, p)
			live := c.until(theEnd)
			want := updates(live)
			for i, f := range live {
				cursor, has := between(f, `"cursor":"`, `"`)
				if !has {
					continue
				}
				later := r.editor("", `{}`)
				later.write(`{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"` + id + `","cwd":"/","_meta":{"parley":{"after":"` + cursor + `"}}}}`)
				frames := slices.Concat(live[:i+1], later.until(`"id":1,`))
				frames = slices.DeleteFunc(frames, func(f string) bool { return strings.Contains(f, `"id":`) })
				got := updates(frames)
				// What is not stored is not told again.
				shown := func(id string) bool {
					return slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, id+": ") })
				}
				missed := slices.DeleteFunc(slices.Clone(want), func(w string) bool {
					id, _, _ := strings.Cut(w, ": ")
					if strings.Contains(w, `"dropped":true`) {
						id, _ = between(w, `"messageId":"`, `"`)
					}
					unstored := strings.Contains(w, `"percent"`) && !slices.Contains(got, w)
					return unstored || id == fleeting[name] && id != "" && !shown(id)
				})
				for j := range max(len(got), len(missed)) {
					if j >= len(got) || j >= len(missed) || got[j] != missed[j] {
						t.Fatalf("behind %s, from the %d. on\n got %s\nwant %s", f, j, got[min(j, len(got)):], missed[min(j, len(missed)):])
					}
				}
				_ = later.ws.CloseNow()
			}
		})
	}
}

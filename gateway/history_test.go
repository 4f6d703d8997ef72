package gateway_test

import (
	"encoding/json"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/gateway/gatewaytest"
)

// liveSession is a session that decides for itself, each command a second after
// the one before it.
type liveSession struct {
	*testing.T
	r *rig
}

func newLiveSession(t *testing.T, r *rig, agent conversation.AgentName) *liveSession {
	m := &liveSession{T: t, r: r}
	r.sessions.Play(func(w *machinetest.World) {
		w.Pace = time.Second
		w.Rules.Tools["rm"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "rm", Approval: true}}
		w.Rules.Policy.ReplyOnBusy, w.Rules.Policy.MaxWait = policy.ReplyQueue, time.Second
	})
	m.do(conversation.Create{Agent: agent, Owner: "local"})
	return m
}

// do gives a command and returns when it was decided. What follows from it by
// itself is left undone.
func (m *liveSession) do(c conversation.Command) (at time.Time) {
	m.Helper()
	m.r.sessions.Play(func(w *machinetest.World) {
		w.Tell(gatewaytest.Key("s1"), c, func(_ conversation.Receipt, err error) {
			if err != nil {
				m.Errorf("%s: %v", c.Name(), err)
			}
		})
		at = w.Now
	})
	return at
}

func (m *liveSession) say(text string) time.Time {
	m.Helper()
	return m.do(conversation.Say{Author: "local", Via: conversation.ViaHTTP, ClientMsgID: conversation.ClientMsgID(text), Text: text})
}

func (m *liveSession) answer(question conversation.QuestionID, text string) time.Time {
	m.Helper()
	return m.do(conversation.Answer{Author: "local", Via: conversation.ViaHTTP, ClientMsgID: conversation.ClientMsgID(text), Question: question, Text: text})
}

// model answers the open step with calls of tools by name and arguments; "" = text.
func (m *liveSession) model(step conversation.StepNumber, items ...[2]string) time.Time {
	m.Helper()
	var answer conversation.ModelAnswer
	for _, i := range items {
		item := conversation.Item{Kind: conversation.ItemCall, Tool: i[0], Args: i[1]}
		if i[0] == "" {
			item = conversation.Item{Kind: conversation.ItemText, Text: i[1]}
		}
		answer.Items = append(answer.Items, item)
	}
	return m.do(conversation.ModelAnswered{Step: step, Attempt: 1, Answer: answer})
}

// M-17, M-19, M-20: read_at is when somebody who answers was shown the message,
// also when that was not for it to be answered, or was none of our models.
// PROTOCOL.md, rule 8.5.
func TestReadAt(t *testing.T) {
	type moment = map[string]time.Time // by message; the zero time = not at all
	ask := func(blocking string) [2]string {
		return [2]string{conversation.ToolAsk, `{"question":"Which?","blocking":` + blocking + `}`}
	}
	for _, x := range []struct {
		name  string
		agent conversation.AgentName
		do    func(m *liveSession) moment
	}{
		{"a message", "", func(m *liveSession) moment {
			first := m.say("one")
			m.say("two")
			return moment{"m1": first, "m2": m.model(1, [2]string{"", "so far"})}
		}},
		{"a message of a cancelled task", "", func(m *liveSession) moment {
			first := m.say("one")
			m.do(conversation.Say{Author: "local", Via: conversation.ViaHTTP, ClientMsgID: "x", Text: "two", Mode: conversation.ModeQueue})
			m.do(conversation.Cancel{By: conversation.ByUser, Task: "t2-s1"})
			return moment{"m1": first, "m2": {}}
		}},
		{"a message that no task was started for", "", func(m *liveSession) moment {
			m.r.sessions.Play(func(w *machinetest.World) { w.Full = true })
			m.say("one")
			m.do(conversation.Tick{})
			return moment{"m1": {}}
		}},
		{"the answer to a question", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, ask("true"))
			return moment{"m2": m.answer("q1", "this")}
		}},
		{"the first of two answers", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, ask("true"), ask("true"))
			m.answer("q1", "this")
			both := m.answer("q2", "that")
			return moment{"m2": both, "m3": both}
		}},
		{"an answer that was never used", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, ask("true"), ask("true"))
			m.answer("q1", "this")
			m.do(conversation.Cancel{By: conversation.ByUser, Task: "t1-s1"})
			return moment{"m2": {}}
		}},
		{"an answer while a step is open", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, ask("false"), [2]string{conversation.ToolRespond, `{"message":"meanwhile"}`})
			m.answer("q1", "this")
			m.do(conversation.ModelFailed{Step: 2, Attempt: 1, Failure: conversation.Failure{Code: conversation.Timeout, Message: "slow"}})
			return moment{"m2": m.do(conversation.ModelAnswered{Step: 2, Attempt: 2, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "so far"}}}})}
		}},
		{"an answer while a tool runs", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, ask("true"), [2]string{"mail", `{}`})
			m.answer("q1", "this")
			return moment{"m2": m.do(conversation.ToolDone{Call: "c1", Status: conversation.CallOK, Result: "sent"})}
		}},
		{"yes to a call", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, [2]string{"rm", `{}`})
			return moment{"m2": m.answer("q1", "yes")}
		}},
		{"no to a call, with another question open", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, [2]string{"rm", `{}`}, ask("true"))
			this := m.answer("q1", "no")
			return moment{"m2": this, "m3": m.answer("q2", "that")}
		}},
		{"an answer, then yes to a call", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, [2]string{"rm", `{}`}, ask("true"))
			m.answer("q2", "that")
			yes := m.answer("q1", "yes")
			return moment{"m2": m.do(conversation.ToolDone{Call: "c1", Status: conversation.CallOK, Result: "gone"}), "m3": yes}
		}},
		{"an answer to a delegation", "", func(m *liveSession) moment {
			m.say("one")
			m.model(1, [2]string{conversation.ToolDelegate, `{"agent":"developer","objective":"x"}`})
			m.do(conversation.DelegationAsked{Delegation: "d1", Question: "q1", Text: "Which?"})
			return moment{"m2": m.answer("d1.q1", "this")}
		}},
		{"a reply that was kept for the next question", "", func(m *liveSession) moment {
			m.say("one")
			m.do(conversation.Reply{Author: "local", Via: conversation.ViaHTTP, ClientMsgID: "k", Task: "t1-s1", Text: "later"})
			m.model(1, ask("true"), [2]string{"mail", `{}`})
			return moment{"m2": m.do(conversation.ToolDone{Call: "c1", Status: conversation.CallOK, Result: "sent"})}
		}},
		{"a message to an outside runtime", conversation.External, func(m *liveSession) moment {
			m.say("one")
			m.say("two")
			m.do(conversation.AddPart{Author: "runtime", Text: "a note"})
			part := m.do(conversation.AddPart{Author: "runtime", Source: "m1-s1", Indexed: true, Text: "working"})
			m.do(conversation.AddPart{Author: "runtime", Source: "m1-s1", Index: 1, Text: "done", Final: true})
			return moment{"m1": part, "m2": {}}
		}},
		{"M-20 a message that is handed out", conversation.External, func(m *liveSession) moment {
			m.say("one")
			m.say("two")
			handed := m.do(conversation.HandOut{Runtime: "r1"})
			m.do(conversation.RuntimeSays{Message: "m1-s1", Status: conversation.RuntimeRead, Generation: 1})
			m.do(conversation.AddPart{Author: "runtime", Source: "m1-s1", Generation: 1, Text: "done", Final: true})
			return moment{"m1": handed, "m2": {}}
		}},
		{"a message that an outside runtime answers at once", conversation.External, func(m *liveSession) moment {
			m.say("one")
			return moment{"m1": m.do(conversation.AddPart{Author: "runtime", Source: "m1-s1", Text: "done", Final: true})}
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := start(t)
			m := newLiveSession(t, r, x.agent)
			want := x.do(m)
			var page struct {
				Items []struct {
					Message string
					Read    *time.Time `json:"read_at"`
				}
			}
			if err := json.Unmarshal(r.call("GET", "/api/sessions/s1/messages", "").want(t, 200).body, &page); err != nil {
				t.Fatal(err)
			}
			seen := 0
			for _, i := range page.Items {
				at, ok := want[i.Message[:2]]
				if !ok {
					continue
				}
				seen++
				switch {
				case at.IsZero() != (i.Read == nil), i.Read != nil && !i.Read.Equal(at):
					t.Errorf("%s was read at %v, want %v", i.Message, i.Read, at)
				}
			}
			if seen != len(want) {
				t.Errorf("%d of %d messages are shown", seen, len(want))
			}
		})
	}
}

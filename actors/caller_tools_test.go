package actors

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/access"
)

const weather = `[{"name":"get_weather","parameters":{"properties":{"city":{"type":"string"}}}},{"name":"get_time"}]`

// withCallersCall runs f in a session that brings tools, with one call of each open.
func withCallersCall(t *testing.T, f func(t *testing.T, h *harness)) {
	t.Helper()
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.createAs(mainKey, conversation.Create{Owner: ada, Policy: conversation.Overrides{
			"tools.caller": json.RawMessage(weather), "instructions": json.RawMessage(`"Be brief."`),
		}})
		h.ok(h.tell(mainKey, say("a", "Which weather, and when?")))
		h.reply(actorstest.Use("k1", "get_weather", `{"city":"Oslo"}`), actorstest.Use("k2", "get_time", `{}`))
		f(t, h)
	})
}

func result(id string, q conversation.QuestionID, text string) conversation.Answer {
	return conversation.Answer{Author: ada, ClientMsgID: conversation.ClientMsgID(id), Question: q, Text: text}
}

// callersQuestions are the open questions, by the call that each names.
func (h *harness) callersQuestions() map[conversation.CallID]conversation.QuestionID {
	h.t.Helper()
	open := map[conversation.CallID]conversation.QuestionID{}
	for _, q := range h.view(mainKey).Questions {
		open[q.Asked.Call] = q.Asked.Question
	}
	return open
}

// results are what the model is shown of the calls that have ended.
func results(r conversation.Request) (texts []string) {
	for _, e := range r.Entries {
		if e.Role == conversation.RoleTool {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// N-01: calls that wait for their caller wait in the log alone: with no slot, nothing of them
// in memory, over restarts and in any order of their results, which the model is given as they
// are. Who repeats a result gets the first answer, who comes too late is told so.
func TestCallersCallsWait(t *testing.T) {
	long := `{"text":"` + strings.Repeat(`\"<é>\" `, 1000) + `"}`
	withCallersCall(t, func(t *testing.T, h *harness) {
		open := h.callersQuestions()
		if len(open) != 2 || h.slots() != 0 || len(h.children(mainKey)) != 0 || h.view(mainKey).Tasks[0].Status != conversation.TaskAwaiting {
			t.Fatalf("%v, %d slots, %d children", open, h.slots(), len(h.children(mainKey)))
		}
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if h.active(mainKey) {
			t.Error("in memory after two idle days")
		}
		h.restart()
		if again := h.callersQuestions(); again["c1"] != open["c1"] || again["c2"] != open["c2"] {
			t.Errorf("after a restart %v is open, before it was %v", again, open)
		}
		if calls := h.view(mainKey).Calls; len(calls) != 2 || !calls[0].Caller || calls[0].Tool != "get_weather" {
			t.Errorf("%+v", calls)
		}
		first := h.ok(h.tell(mainKey, result("r2", open["c2"], "12:00")))
		h.restart()
		if again := h.ok(h.tell(mainKey, result("r2", open["c2"], "12:00"))); !again.Duplicate || again.Message != first.Message {
			t.Errorf("%+v, and again %+v", first, again)
		}
		h.refused(h.tell(mainKey, result("r3", open["c2"], "13:00")), conversation.QuestionNotOpen)
		h.refused(h.tell(mainKey, result("r4", open["c1"], " ")), conversation.BadRequest)
		h.ok(h.tell(mainKey, result("r1", open["c1"], long)))
		r := h.call().Request
		if got := results(r); !slices.Equal(got, []string{long, "12:00"}) {
			t.Errorf("the model is shown %.100q", got)
		}
		if n := len(r.Tools); n < 2 || r.Tools[n-2].Name != "get_weather" || r.Tools[n-1].Name != "get_time" || !strings.HasSuffix(r.System, "Be brief.") {
			t.Errorf("%d tools, system %q", n, r.System)
		}
		h.reply(actorstest.Text("It is wet."))
		h.assertComplete(mainKey)
		if h.count(mainKey, conversation.KindQuestionClosed) != 0 {
			t.Error("a question was closed without an answer")
		}
	})
}

// A result that was accepted is the call's, also when the server ends right then.
func TestCallersResultIsOneCommit(t *testing.T) {
	withCallersCall(t, func(t *testing.T, h *harness) {
		for call, q := range h.callersQuestions() {
			h.ok(h.tell(mainKey, result(string(call), q, "result of "+string(call))))
			for r, err := range h.store.Records(t.Context(), mainKey, conversation.Range{}) {
				names := kinds(r.Events)
				if err != nil || slices.Contains(names, "question_answered") != slices.Contains(names, "tool_finished") {
					t.Fatalf("a commit has %v, %v", names, err)
				}
			}
		}
		h.restart()
		if got := results(h.call().Request); !slices.Equal(got, []string{"result of c1", "result of c2"}) {
			t.Errorf("%q", got)
		}
		h.reply(actorstest.Text("done"))
	})
}

// A cancel ends what waits for its caller at once, after a restart too; a result is too late then.
func TestCallersCallsAreCancelled(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		withCallersCall(t, func(t *testing.T, h *harness) {
			open := h.callersQuestions()
			if restarted {
				h.restart()
			}
			h.ok(h.tell(mainKey, conversation.Cancel{By: conversation.ByUser}))
			if v := h.view(mainKey); len(v.Tasks) != 0 || len(v.Questions) != 0 || len(v.Calls) != 0 {
				t.Errorf("%+v", v)
			}
			h.refused(h.tell(mainKey, result("r", open["c1"], "12 degrees")), conversation.QuestionNotOpen)
		})
	}
}

// N-18: who may answer a question may give a result; only the owner says what a session brings.
func TestCallersRights(t *testing.T) {
	withCallersCall(t, func(t *testing.T, h *harness) {
		h.ok(h.tell(mainKey, conversation.Update{By: ada, Members: map[conversation.UserID]access.Role{"rea": access.Reader, "app": access.Approver, "wri": access.Writer}}))
		open := h.callersQuestions()
		as := func(user conversation.UserID, call conversation.CallID) *answer {
			c := result("r"+string(call), open[call], "of "+string(user))
			c.Author = user
			return h.as(user, mainKey, c)
		}
		h.refused(as("rea", "c1"), conversation.Forbidden)
		h.refused(as("eve", "c1"), conversation.NotFound)
		h.ok(as("app", "c1"))
		h.refused(h.as("wri", mainKey, conversation.Update{By: "wri", Policy: conversation.Overrides{"tools.caller": nil}}), conversation.Forbidden)
		h.refused(h.as("wri", mainKey, conversation.Update{By: "wri", Policy: conversation.Overrides{"instructions": json.RawMessage(`"Obey me."`)}}), conversation.Forbidden)
		h.ok(as("wri", "c2"))
		if got := results(h.call().Request); !slices.Equal(got, []string{"of app", "of wri"}) {
			t.Errorf("%q", got)
		}
		h.reply(actorstest.Text("done"))
	})
}

// A delegation is told nothing of what its session brings.
func TestDelegationsBringNothing(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		h.createAs(mainKey, conversation.Create{Owner: ada, Policy: conversation.Overrides{
			"tools.caller": json.RawMessage(weather), "instructions": json.RawMessage(`"Be brief."`), "task.max_steps": json.RawMessage(`5`),
		}})
		h.ok(h.tell(mainKey, say("a", "Look")))
		h.reply(actorstest.Use("k1", conversation.ToolDelegate, `{"agent":"researcher","objective":"Look"}`))
		r := h.call().Request
		if r.Depth != 1 || strings.Contains(r.System, "Be brief.") || slices.ContainsFunc(r.Tools, func(s conversation.ToolSpec) bool { return s.Name == "get_weather" }) {
			t.Errorf("the delegate is shown %+v", r)
		}
		created := h.stored(conversation.SessionKey{Tenant: mainKey.Tenant, Session: mainKey.Session + "/d1"})[0].Body.(conversation.SessionCreated)
		if len(created.Policy) != 1 || string(created.Policy["task.max_steps"]) != "5" {
			t.Errorf("it has the policies %s", created.Policy)
		}
		h.reply(actorstest.Text("found"))
		h.reply(actorstest.Text("done"))
	})
}

// The policies hold for requests of a session whose log is longer than what is read of it
// again for the model.
func TestOwnBehindTheWindow(t *testing.T) {
	withHarness(t, func(h *harness) { h.cfg.Rules.Policy.Context.Threshold = 0 }, func(t *testing.T, h *harness) {
		h.createAs(mainKey, conversation.Create{Owner: ada, Policy: conversation.Overrides{"tools.caller": json.RawMessage(weather), "instructions": json.RawMessage(`"Be brief."`)}})
		for h.view(mainKey).Head < conversation.TranscriptWindow+100 {
			h.ok(h.tell(mainKey, say(time.Now().String(), "more")))
			time.Sleep(time.Millisecond)
			h.reply(actorstest.Text("said"))
		}
		h.restart()
		h.ok(h.tell(mainKey, say("last", "Which weather?")))
		r := h.call().Request
		if n := len(r.Tools); r.Tools[n-1].Name != "get_time" || !strings.HasSuffix(r.System, "Be brief.") {
			t.Errorf("%q, the last of %d tools is %s", r.System, n, r.Tools[n-1].Name)
		}
		h.reply(actorstest.Text("done"))
	})
}

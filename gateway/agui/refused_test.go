package agui_test

import (
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/gateway"
)

// view is a session as it is, and how many events it has.
func (r *rig) view(key conversation.SessionKey) (v conversation.View) {
	r.sessions.Play(func(w *machinetest.World) { v = w.Session(key).Machine.View() })
	return v
}

// interrupts are what a run ended with.
func interrupts(all []told) (ids []string) {
	outcome, _ := all[len(all)-1].m["outcome"].(map[string]any)
	list, _ := outcome["interrupts"].([]any)
	for _, i := range list {
		ids = append(ids, i.(map[string]any)["id"].(string))
	}
	return ids
}

func resolved(id string, payload any) map[string]any {
	return map[string]any{"interruptId": id, "status": "resolved", "payload": payload}
}

// Of several answers one that the session refuses refuses them all, whichever place it has.
func TestVerdictThatIsNone(t *testing.T) {
	r := start(t)
	r.sessions.Play(func(w *machinetest.World) {
		w.Rules.Tools["mail"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "mail", Approval: true}}
	})
	s, _, session, _ := r.say("mine", "u1", "Go")
	r.sessions.Model(session, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`), machinetest.Call("mail", `{"to":"a"}`), machinetest.Call("mail", `{"to":"b"}`), machinetest.Call("mail", `{"to":"c"}`))
	ids := interrupts(s.until("RUN_FINISHED"))
	if len(ids) != 4 {
		t.Fatalf("%v", ids)
	}
	before := r.view(session).Head
	yes := map[string]any{"approved": true}
	tools := []any{map[string]any{"name": "mine", "parameters": map[string]any{"type": "object"}}}
	slices.SortFunc(ids, func(a, b string) int { return strings.Compare(a, b) })
	for _, entries := range [][]map[string]any{
		{resolved(ids[0], "Oslo"), resolved(ids[1], yes), resolved(ids[2], "perhaps")},
		{resolved(ids[1], yes), resolved(ids[0], "Oslo"), resolved(ids[2], map[string]any{"approved": 7})},
		{resolved(ids[1], yes), resolved(ids[2], "")},
	} {
		s := r.request("POST", "/agui", input("mine", says(user("u1", "Go")), map[string]any{"resume": entries}))
		if e := s.refusal(); s.status != 400 || e["code"] != "bad_request" {
			t.Errorf("%v: %d %v", entries, s.status, e)
		}
		if now := r.view(session); now.Head != before {
			t.Errorf("%v: %d events came of it", entries, now.Head-before)
		}
	}
	// The tools that came with them are taken back.
	s = r.request("POST", "/agui", input("mine", says(user("u1", "Go")), map[string]any{"tools": tools, "resume": []any{resolved(ids[2], "perhaps")}}))
	if v := r.view(session); s.status != 400 || len(v.Policy) != 0 {
		t.Errorf("%d, and the policies are %s", s.status, v.Policy)
	}
	// Of two that only the session can judge, the second one is passed over, and stays open.
	all := r.request("POST", "/agui", input("mine", says(user("u1", "Go")), map[string]any{"resume": []any{resolved(ids[1], "sure"), resolved(ids[2], "perhaps")}})).until("RUN_FINISHED")
	open := interrupts(all)
	if len(open) != 3 || slices.Contains(open, ids[1]) || !slices.Contains(kinds(all), "parley.ignored") {
		t.Errorf("%v are open, %v", open, kinds(all))
	}
}

// An id that was used before refuses the input before its other messages are said.
func TestIDThatWasUsed(t *testing.T) {
	r := start(t)
	_, _, session, _ := r.say("mine", "u1", "Go")
	before := r.view(session).Head
	s := r.request("POST", "/agui", input("mine", says(user("u2", "And this"), user("u1", "Stop")), nil))
	if e := s.refusal(); s.status != 409 || !strings.Contains(e["message"].(string), `"u1"`) {
		t.Errorf("%d %v", s.status, e)
	}
	if now := r.view(session).Head; now != before {
		t.Errorf("%d events came of it", now-before)
	}
}

// Settings of an input that the session refuses are not kept, and a mode that is not allowed opens no thread.
func TestRefusedSettings(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Offer.Modes = []string{"queue", "reject"} })
	_, _, session, _ := r.say("mine", "u1", "Go")
	with := func(mode string) map[string]any {
		return map[string]any{"tools": []any{map[string]any{"name": "mine"}}, "context": []any{map[string]any{"description": "d", "value": "v"}}, "forwardedProps": map[string]any{"parley": map[string]any{"mode": mode}}}
	}
	send := func(thread, id, mode string, status int) {
		t.Helper()
		if s := r.request("POST", "/agui", input(thread, says(user(id, "More")), with(mode))); s.status != status {
			t.Errorf("%s: %d, want %d", mode, s.status, status)
		}
		if v := r.view(session); len(v.Policy) != 0 {
			t.Errorf("%s: the policies are %s", mode, v.Policy)
		}
	}
	send("mine", "u2", "reject", 409)
	send("mine", "u2", "steer", 400)
	send("new", "u2", "steer", 400)
	if status := r.request("POST", "/agui/new/cancel", `{}`).status; status != 404 {
		t.Errorf("the thread is there: %d", status)
	}
	r.sessions.Model(session, machinetest.Text("Gone"))
	before := r.view(session).Head
	r.Call("PATCH", "/api/sessions/"+string(session.Session), `{"closed":true}`).Want(200)
	send("mine", "u2", "queue", 410)
	if now := r.view(session).Head; now != before+1 {
		t.Errorf("%d events came of it", now-before-1)
	}
}

package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// tenants knows two users by their tokens: of the same name, in two tenants.
type tenants struct{ gateway.NoAuth }

func (tenants) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	return &gateway.Principal{
		Tenant: conversation.TenantID(c.Token), User: "ada",
		Scopes: []string{gateway.ScopeChat, gateway.ScopeRuntime, gateway.ScopeReadTools},
	}, nil
}

// M-25: no route and no command of one tenant reaches what another has, to write it
// or to read it. Each is answered as if it were not there, and changes nothing. The
// routes and commands are those of the documents, so a new one is asked for here.
func TestTenantsNeverMeet(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = tenants{} })
	acme := func(method, path, body string) answer {
		return r.call(method, path, body, "Authorization", "Bearer acme")
	}
	id := acme("POST", "/api/sessions", `{"client_session_id":"mine","access":"tenant"}`).want(t, 201).get(t, "session")
	acme("POST", "/api/sessions/"+id+"/messages", `{"text":"Deploy","client_msg_id":"a"}`).want(t, 202)
	key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
	r.sessions.Model(key, machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	acme("POST", "/api/sessions/"+id+"/messages", `{"text":"And then?","client_msg_id":"b","mode":"queue"}`).want(t, 202)
	outside := acme("POST", "/api/sessions", `{"agent":"outside","access":"tenant"}`).want(t, 201).get(t, "session")
	acme("POST", "/api/sessions/"+outside+"/messages", `{"text":"Fix it","client_msg_id":"a"}`).want(t, 202)

	state := func() (all string) {
		for _, session := range []string{id, outside} {
			key.Session = conversation.SessionID(session)
			r.sessions.Play(func(w *machinetest.World) {
				text, err := json.Marshal(w.Session(key).Events())
				if err != nil {
					t.Fatal(err)
				}
				all += string(text)
			})
		}
		return all + string(acme("GET", "/api/sessions", "").body) + string(acme("GET", "/api/tasks", "").body)
	}
	before := state()

	bodies := map[string]string{ // of routes that need one
		"PATCH /api/sessions/{id}":                            `{"title":"stolen","access":"private","policy":{"inbox.mode":"reject"},"closed":true}`,
		"POST /api/sessions/{id}/messages":                    `{"text":"Stop that","client_msg_id":"a"}`,
		"POST /api/sessions/{id}/blobs":                       `{"a":1}`,
		"PATCH /api/sessions/{id}/messages/{message}":         `{"text":"Stop that"}`,
		"POST /api/sessions/{id}/parts":                       `{"source_id":"m1-` + outside + `","part_index":0,"text":"Done.","final":true}`,
		"POST /api/sessions/{id}/messages/{message}/runtime":  `{"status":"failed","error":"no"}`,
		"POST /api/sessions/{id}/cancel":                      `{"waiting":"drop"}`,
		"POST /api/sessions/{id}/questions/{question}/answer": `{"text":"Berlin"}`,
		"PUT /api/sessions/{id}/members/{user}":               `{"role":"owner"}`,
		"POST /api/sessions/{id}/clear":                       `{}`,
		"POST /api/tasks/{taskId}/reply":                      `{"reply":"Berlin"}`,
		"POST /api/tasks/{taskId}/cancel":                     `{}`,
	}
	names := strings.NewReplacer("{message}", "m2-"+id, "{question}", "q1", "{user}", "ada", "{call}", "c1", "{taskId}", "t1-"+id)
	asked := 0
	for path, item := range gatewaytest.Documents(t).HTTP.Paths.Map() {
		if !strings.Contains(path, "{id}") && !strings.Contains(path, "{taskId}") {
			continue
		}
		for method, o := range item.Operations() {
			body, known := bodies[method+" "+path]
			if o.RequestBody != nil && !known {
				t.Errorf("the test does not know what to send to %s %s", method, path)
			}
			at := names.Replace(path)
			if session := id; strings.HasSuffix(path, "/parts") || strings.HasSuffix(path, "/runtime") {
				session = outside
				at = strings.ReplaceAll(strings.ReplaceAll(path, "{message}", "m1-"+outside), "{id}", session)
			} else {
				at = strings.ReplaceAll(at, "{id}", session)
			}
			r.call(method, at, body, "Authorization", "Bearer beta").problem(t, http.StatusNotFound, conversation.NotFound)
			asked++
		}
	}
	if asked < 15 {
		t.Errorf("only %d routes name a session or a task", asked)
	}
	r.call("POST", "/api/tasks", `{"prompt":"x","session":"`+id+`"}`, "Authorization", "Bearer beta").problem(t, http.StatusNotFound, conversation.NotFound)

	data := map[string]any{
		"follow": obj{"since": 0}, "unfollow": obj{}, "send": obj{"client_msg_id": "a", "text": "Stop that"}, "answer": obj{"client_msg_id": "b", "question": "q1", "text": "Berlin"},
		"edit": obj{"message": "m2-" + id, "text": "x"}, "withdraw": obj{"message": "m2-" + id}, "move": obj{"message": "m2-" + id},
		"cancel": obj{"waiting": "drop"}, "policy": obj{"inbox.mode": "reject"}, "seen": obj{"seq": 1}, "typing": obj{"on": true}, "clear": obj{}, "close": obj{},
	}
	elsewhere := []string{"hello", "create", "refresh", "ping", "claim", "watch_chats", "unwatch_chats", "watch", "unwatch"} // name no session
	c := gatewaytest.Dial(t, r.addr)
	if f := c.Do("hello", "", obj{"proto": 1, "token": "beta"}); f.Get("tenant") != "beta" {
		t.Fatalf("hello was answered %s", f.Raw)
	}
	for _, kind := range gatewaytest.Documents(t).Commands() {
		if slices.Contains(elsewhere, kind) {
			continue
		}
		if data[kind] == nil {
			t.Errorf("the test does not know what to send with %s", kind)
			continue
		}
		f := c.Do(kind, id, data[kind])
		if kind == "unfollow" || kind == "typing" { // of what is not followed, and shown to nobody
			continue
		}
		if f.Error == nil || f.Error.Code != string(conversation.NotFound) {
			t.Errorf("%s was answered %s", kind, f.Raw)
		}
	}
	if f := c.Do("create", "", obj{"client_session_id": "mine"}); f.Get("session") == id || f.Type != "ok" {
		t.Errorf("the same name in another tenant: %s", f.Raw)
	}
	if after := state(); after != before {
		t.Errorf("what the tenant has was\n%s\nand is\n%s", before, after)
	}
}

package gateway_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// listOf is the list of the route, by session.
func listOf(t *testing.T, r *rig, token string) map[string]string {
	t.Helper()
	var page struct{ Items []json.RawMessage }
	if err := json.Unmarshal(r.call("GET", "/api/sessions?limit=200", "", "Authorization", "Bearer "+token).want(t, http.StatusOK).body, &page); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, item := range page.Items {
		var row struct{ Session string }
		if err := json.Unmarshal(item, &row); err != nil {
			t.Fatal(err)
		}
		all[row.Session] = gatewaytest.Canonical(t, item)
	}
	return all
}

// Whoever watches is shown what the list says, as it changes: new sessions, messages, parts,
// questions, titles, what another device has read, and what must not be seen any more.
// PROTOCOL.md, rules 2.16 and 4.11.
func TestWatchOfTheList(t *testing.T) {
	a := &passes{}
	a.put("ann", 0, gateway.ScopeChat)
	a.put("run", 0, gateway.ScopeRuntime)
	a.byToken["bob"] = gateway.Principal{Tenant: "default", User: "bob", Scopes: []string{gateway.ScopeChat}, Credential: "bob"}
	r := start(t, withAuth(a))
	dial := func(token string) *gatewaytest.Client {
		c := gatewaytest.Dial(t, r.addr)
		if f := c.Do("hello", "", obj{"proto": 1, "token": token}); f.Type != "ok" {
			t.Fatalf("%s", f.Raw)
		}
		return c
	}
	ann, bob := dial("ann"), dial("bob")
	rows := map[*gatewaytest.Client]map[string]string{ann: {}, bob: {}}
	for c := range rows {
		if f := c.Do("watch", "", nil); f.Type != "ok" || string(f.Data) != "{}" {
			t.Fatalf("%s", f.Raw)
		}
	}
	// until takes rows until they are those of the route.
	until := func(c *gatewaytest.Client, token, what string) {
		t.Helper()
		for !reflect.DeepEqual(rows[c], listOf(t, r, token)) {
			f := c.Read()
			if f.Type != "listed" || f.Session != "" {
				t.Fatalf("%s: %s", what, f.Raw)
			}
			if id := f.Get("session"); f.Get("gone") == "true" {
				delete(rows[c], id)
			} else {
				rows[c][id] = gatewaytest.Canonical(t, f.Data)
			}
		}
	}
	id := r.call("POST", "/api/sessions", `{}`, "Authorization", "Bearer ann").want(t, http.StatusCreated).get(t, "session")
	until(ann, "ann", "a new session")
	patch := func(body string) {
		t.Helper()
		r.call("PATCH", "/api/sessions/"+id, body, "Authorization", "Bearer ann").want(t, http.StatusOK)
	}
	r.call("POST", "/api/sessions/"+id+"/messages", `{"text":"Hello"}`, "Authorization", "Bearer ann").want(t, http.StatusAccepted)
	until(ann, "ann", "a message")
	patch(`{"title":"Login"}`)
	until(ann, "ann", "a title")
	patch(`{"access":"tenant"}`)
	until(ann, "ann", "shared")
	until(bob, "bob", "shared")
	if len(rows[bob]) != 1 {
		t.Errorf("bob sees %v", rows[bob])
	}
	other := dial("ann")
	if f := other.Do("seen", id, obj{"seq": 2}); f.Type != "ok" {
		t.Fatalf("%s", f.Raw)
	}
	until(ann, "ann", "read on another device")
	patch(`{"pinned":true}`)
	until(ann, "ann", "pinned")
	patch(`{"archived":true}`)
	if err := r.call("GET", "/api/sessions?archived=only", "", "Authorization", "Bearer ann").want(t, http.StatusOK).body; !strings.Contains(string(err), id) {
		t.Errorf("archived: %s", err)
	}
	patch(`{"archived":false,"pinned":false}`)
	until(ann, "ann", "neither")
	patch(`{"access":"private"}`)
	until(bob, "bob", "private again")
	r.call("DELETE", "/api/sessions/"+id, "", "Authorization", "Bearer ann").want(t, http.StatusNoContent)
	until(ann, "ann", "erased")
	if len(rows[ann]) != 0 || len(rows[bob]) != 0 {
		t.Errorf("at the end: %v", rows)
	}

	// A second watch replaces the first, and behind unwatch nothing comes.
	for range 2 {
		if f := ann.Do("watch", "", nil); f.Type != "ok" {
			t.Fatalf("%s", f.Raw)
		}
	}
	for range 2 {
		if f := ann.Do("unwatch", "", nil); f.Type != "ok" {
			t.Fatalf("%s", f.Raw)
		}
	}
	r.sessions.Open("s9", "ann")
	if f := ann.Do("ping", "", obj{"t": 1}); f.Type != "ok" {
		t.Errorf("behind unwatch: %s", f.Raw)
	}
	run := dial("run")
	if f := run.Do("watch", "", nil); codeOf(f) != string(conversation.Forbidden) {
		t.Errorf("a runtime: %s", f.Raw)
	}
	// A refresh that takes the scope away ends the watch.
	if f := ann.Do("watch", "", nil); f.Type != "ok" {
		t.Fatalf("%s", f.Raw)
	}
	if f := ann.Do("refresh", "", obj{"token": "run"}); f.Type != "ok" {
		t.Fatalf("%s", f.Raw)
	}
	r.sessions.Open("s10", "ann")
	if f := ann.Do("ping", "", obj{"t": 1}); f.Type != "ok" {
		t.Errorf("behind the refresh: %s", f.Raw)
	}
}

package gateway_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway/gatewaytest"
)

// N-18: the owner gives roles, changes them and takes them away, and a member leaves. Each
// is an event, the same again is none, and the list and the state show what holds.
// PROTOCOL.md, rule 9.3.
func TestMembersRoutes(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}))}
	named := func(name string) []string { return []string{"Authorization", "Bearer " + name} }
	id := s.call("POST", "/api/sessions", "{}", named("owner")...).want(t, 201).get(t, "session")
	at := "/api/sessions/" + id + "/members"
	has := func(want string) {
		t.Helper()
		if got := string(s.call("GET", at, "", named("owner")...).want(t, 200).body); got != `{"items":[`+want+`],"next_cursor":null}` {
			t.Errorf("members %s\nwant    %s", got, want)
		}
	}
	const ann = `{"user":"ann","role":"owner"}`
	has(ann)
	s.call("PUT", at+"/str", `{"role":"reader"}`, named("owner")...).want(t, 200)
	has(ann + `,{"user":"str","role":"reader"}`)
	s.call("GET", "/api/sessions/"+id, "", named("stranger")...).want(t, 200)
	head := s.call("GET", "/api/sessions/"+id, "", named("owner")...).get(t, "head")
	s.call("PUT", at+"/str", `{"role":"reader"}`, named("owner")...).want(t, 200)
	if got := s.call("GET", "/api/sessions/"+id, "", named("owner")...).get(t, "head"); got != head {
		t.Errorf("the same role again is an event: %s after %s", got, head)
	}
	s.call("PUT", at+"/str", `{"role":"approver"}`, named("owner")...).want(t, 200)
	s.call("PUT", at+"/d%27or%20a.b%2Fc@example.com", `{"role":"writer"}`, named("owner")...).want(t, 200)
	has(ann + `,{"user":"d'or a.b/c@example.com","role":"writer"},{"user":"str","role":"approver"}`)
	if state := s.call("GET", "/api/sessions/"+id, "", named("stranger")...).get(t, "state"); !strings.Contains(state, `"members":{"d'or a.b/c@example.com":"writer","str":"approver"}`) {
		t.Errorf("state %s", state)
	}
	for _, bad := range []string{``, `{}`, `{"role":"admin"}`, `{"role":""}`, `{"role":null}`, `{"role":1}`} {
		s.call("PUT", at+"/eve", bad, named("owner")...).problem(t, 400, "bad_request")
	}
	s.call("PUT", at+"/"+strings.Repeat("u", 129), `{"role":"reader"}`, named("owner")...).problem(t, 400, "bad_request")
	s.call("PUT", at+"/ann", `{"role":"reader"}`, named("owner")...).problem(t, 409, "conflict")
	s.call("DELETE", at+"/ann", "", named("owner")...).problem(t, 409, "conflict")
	s.call("PUT", at+"/str", `{"role":"owner"}`, named("stranger")...).problem(t, 403, "forbidden") // promotes himself
	s.call("DELETE", at+"/str", "", named("stranger")...).want(t, 200)                              // and leaves
	s.call("GET", at, "", named("stranger")...).problem(t, 404, "not_found")
	s.call("DELETE", at+"/nobody", "", named("owner")...).want(t, 200)
	s.call("DELETE", at+"/d%27or%20a.b%2Fc@example.com", "", named("owner")...).want(t, 200)
	has(ann)
}

// A member who is removed, and one who leaves, follow no more; one whose role changes goes
// on, and so do the others.
func TestMemberIsRemoved(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}))}
	chat, _ := s.open(everybody[0])
	id := string(chat.Session)
	clients := map[string]*gatewaytest.Client{}
	for _, name := range []string{"owner", "writer", "approver", "reader"} {
		c := gatewaytest.Dial(t, s.addr)
		c.Do("hello", "", obj{"proto": 1, "token": name})
		if f := c.Do("follow", id, obj{"tail": 0}); f.Type != "ok" {
			t.Fatalf("%s: %s", name, f.Raw)
		}
		clients[name] = c
	}
	do := func(as, method, user, body string) {
		t.Helper()
		s.call(method, "/api/sessions/"+id+"/members/"+user, body, "Authorization", "Bearer "+as).want(t, 200)
	}
	do("owner", "DELETE", "wri", "")               // removed
	do("reader", "DELETE", "rea", "")              // leaves
	do("owner", "PUT", "app", `{"role":"reader"}`) // may less
	s.call("POST", "/api/sessions/"+id+"/clear", "{}", "Authorization", "Bearer owner").want(t, 200)
	for name, c := range clients {
		last := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "gone" || f.Type == "context_cleared" })
		if ends := slices.Contains([]string{"writer", "reader"}, name); ends != (last.Type == "gone") || ends && last.Get("reason") != "forbidden" {
			t.Errorf("the %s: %s", name, last.Raw)
		}
	}
}

// A member's lists show the session and its tasks; a stranger's do not.
func TestMembersLists(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}))}
	chat, _ := s.open(everybody[0])
	id := string(chat.Session)
	for _, p := range everybody {
		if !p.may("chat") || p.open {
			continue
		}
		for _, path := range []string{"/api/sessions", "/api/tasks", "/api/tasks?status=QUEUED", "/api/tasks?session=" + id} {
			a := s.call("GET", path, "", "Authorization", "Bearer "+p.name)
			if strings.Contains(path, "session=") && p.role == 0 {
				a.problem(t, 404, "not_found")
				continue
			}
			if shows := strings.Contains(string(a.want(t, 200).body), `"session":"`+id+`"`); shows != (p.role > 0) && !strings.Contains(path, "QUEUED") {
				t.Errorf("%s for the %s: %s", path, p.name, a.body)
			}
		}
	}
}

// Who may see few of a tenant's many sessions has the server look at so many for one page,
// and gets to what is theirs by the cursors.
func TestListsLookAtSoMany(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}))}
	as := []string{"Authorization", "Bearer stranger"}
	mine := s.call("POST", "/api/tasks", `{"prompt":"x","agent":"outside"}`, as...).want(t, 202).get(t, "session")
	s.sessions.Play(func(w *machinetest.World) {
		for i := range 5005 {
			key := conversation.SessionKey{Tenant: acme, Session: conversation.SessionID(fmt.Sprint("x", i))}
			w.Do(key, conversation.Create{Owner: "ann", Agent: conversation.External})
			w.Do(key, conversation.Say{Author: "ann", Via: conversation.ViaHTTP, ClientMsgID: "a", Text: "x"})
		}
	})
	for _, path := range []string{"/api/sessions", "/api/tasks"} {
		first := s.call("GET", path, "", as...).want(t, 200)
		next := first.get(t, "next_cursor")
		if first.get(t, "items") != "[]" || next == "" {
			t.Errorf("%s: the first page is %s", path, first.body)
		}
		second := s.call("GET", path+"?cursor="+next, "", as...).want(t, 200)
		if !strings.Contains(string(second.body), mine) || second.get(t, "next_cursor") != "" {
			t.Errorf("%s: the second page is %s", path, second.body)
		}
	}
}

package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/service"
)

// person is somebody who asks. The name is also the token.
type person struct {
	name   string
	tenant conversation.TenantID
	user   conversation.UserID
	scopes string
	role   access.Role // in the session
	open   bool        // the session is open to its tenant
}

const (
	people = "chat read:tools"
	acme   = "acme"
)

// everybody is all that a user may be to a session of ann's.
var everybody = []person{
	{"owner", acme, "ann", people, access.Owner, false},
	{"writer", acme, "wri", people, access.Writer, false},
	{"approver", acme, "app", people, access.Approver, false},
	{"reader", acme, "rea", people, access.Reader, false},
	{"user of the tenant, open session", acme, "ten", people, access.Writer, true},
	{"reader, open session", acme, "rea", people, access.Writer, true},
	{"stranger", acme, "str", people, access.None, false},
	{"owner's name in another tenant", "beta", "ann", people, access.None, false},
	{"another tenant, open session", "beta", "ten", people, access.None, true},
	{"administrator", acme, "adm", people + " admin", access.None, false},
	{"owner without read:tools", acme, "ann", "chat", access.Owner, false},
	{"owner without chat", acme, "ann", "read:tools", access.Owner, false},
	{"owner with runtime only", acme, "ann", "runtime read:tools", access.Owner, false},
	{"runtime", acme, "bot", "runtime read:tools", access.None, false},
	{"runtime of another tenant", "beta", "bot", "runtime read:tools", access.None, false},
	{"watcher of chats", acme, "wat", "chats", access.None, false},
	{"reader who is a runtime", acme, "rea", people + " runtime", access.Reader, false},
}

func (p person) may(scope string) bool { return slices.Contains(strings.Fields(p.scopes), scope) }

// credentials knows everybody by their names.
type credentials struct{ gateway.NoAuth }

func (credentials) Mode() string { return "keys" }

func (credentials) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	i := slices.IndexFunc(everybody, func(p person) bool { return p.name == c.Token })
	if i < 0 {
		return nil, conversation.Errorf(conversation.Unauthenticated, "nobody is called that")
	}
	p := everybody[i]
	return &gateway.Principal{Tenant: p.tenant, User: p.user, Scopes: strings.Fields(p.scopes), Credential: p.name}, nil
}

// act is a route or a command, and what it takes.
type act struct {
	name    string // METHOD PATH, or the type of a frame
	scopes  string // one of them; "" = no credential, or any
	right   access.Right
	outside bool // it is for a session of outside runtimes
	body    string
}

// noSession is the right of what names no session: the scope alone decides.
const noSession = access.Engine

// routes is every route of the server.
var routes = []act{
	{name: "GET /ws"}, {name: "POST /channels/{channel}"}, {name: "GET /livez"}, {name: "GET /readyz"}, {name: "GET /version"}, {name: "GET /openapi.yaml"}, {name: "GET /asyncapi.yaml"},
	{name: "GET /metrics"}, {name: "GET /debug/pprof/{profile}"}, {name: "GET /"}, {name: "GET /assets/{file}"},
	{"POST /api/sessions", "chat", noSession, false, `{}`},
	{"GET /api/sessions", "chat", noSession, false, ``},
	{"GET /api/sessions/{id}", "chat runtime", access.Read, false, ``},
	{"PATCH /api/sessions/{id}", "chat", access.Write, false, `{"title":"Theirs"}`},
	{"DELETE /api/sessions/{id}", "chat", access.Own, false, ``},
	{"POST /api/sessions/{id}/messages", "chat", access.Write, false, `{"text":"Stop","client_msg_id":"z"}`},
	{"POST /api/sessions/{id}/blobs", "chat", access.Write, false, `{"a":1}`},
	{"GET /api/blobs/{hash}", "chat runtime", noSession, false, ``}, // who may read no session that has it: TestAttachmentsOfOthers
	{"GET /api/sessions/{id}/messages", "chat runtime", access.Read, false, ``},
	{"PATCH /api/sessions/{id}/messages/{message}", "chat", access.Write, false, `{"text":"Stop"}`},
	{"DELETE /api/sessions/{id}/messages/{message}", "chat", access.Write, false, ``},
	{"POST /api/sessions/{id}/parts", "runtime", access.Write, true, `{"source_id":"{first}","part_index":0,"text":"Done.","final":true}`},
	{"POST /api/sessions/{id}/messages/{message}/runtime", "runtime", access.Write, true, `{"status":"failed","error":"no"}`},
	{"POST /api/runtime/claim", "runtime", noSession, false, `{"runtime":"r"}`},
	{"GET /api/sessions/{id}/events", "chat runtime", access.Read, false, ``},
	{"GET /api/sessions/{id}/stream", "chat runtime", access.Read, false, ``},
	{"GET /api/sessions/{id}/calls/{call}", "chat", access.Read, false, ``},
	{"POST /api/sessions/{id}/cancel", "chat", access.Write, false, `{"waiting":"drop"}`},
	{"POST /api/sessions/{id}/clear", "chat", access.Write, false, `{}`},
	{"GET /api/sessions/{id}/members", "chat runtime", access.Read, false, ``},
	{"PUT /api/sessions/{id}/members/{user}", "chat", access.Own, false, `{"role":"writer"}`},
	{"DELETE /api/sessions/{id}/members/{user}", "chat", access.Own, false, ``},
	{"GET /api/sessions/{id}/questions", "chat", access.Read, false, ``},
	{"POST /api/sessions/{id}/questions/{question}/answer", "chat", access.Approve, false, `{"text":"Berlin"}`},
	{"POST /api/tickets", "chat runtime chats", noSession, false, `{}`},
	{"GET /api/chats", "chats", noSession, false, ``},
	{"GET /api/chats/stream", "chats", noSession, false, ``},
	{"POST /api/tasks", "chat", access.Write, false, `{"prompt":"x","session":"{id}"}`},
	{"GET /api/audit", "admin", noSession, false, ``},
	{"GET /api/cluster", "admin", noSession, false, ``},
	{"GET /api/tasks", "chat", noSession, false, ``},
	{"GET /api/tasks/{taskId}", "chat", access.Read, false, ``},
	{"POST /api/tasks/{taskId}/reply", "chat", access.Approve, false, `{"reply":"Berlin"}`},
	{"POST /api/tasks/{taskId}/cancel", "chat", access.Write, false, `{}`},
}

// more are further things that a route of the list takes: each needs a right of its own.
var more = []act{
	{"PATCH /api/sessions/{id}", "chat", access.Own, false, `{"access":"private"}`},
	{"PATCH /api/sessions/{id}", "chat", access.Own, false, `{"agent":"developer"}`},
	{"PATCH /api/sessions/{id}", "chat", access.Own, false, `{"policy":{"inbox.mode":"queue"}}`},
	{"PATCH /api/sessions/{id}", "chat", access.Own, false, `{"closed":true}`},
	{"GET /api/tasks?session={id}", "chat", access.Read, false, ``},
	{"GET /api/sessions/{id}/events?since=0&limit=1", "chat runtime", access.Read, false, ``},
	{"GET /api/sessions/{id}/stream?since=0", "chat runtime", access.Read, false, ``},
	{"POST /api/sessions/{id}/messages?wait=1ms", "chat", access.Write, false, `{"text":"Stop","client_msg_id":"z"}`},
}

// commands is every command of the socket.
var commands = []act{
	{"hello", "", noSession, false, ``}, {"ping", "", noSession, false, ``}, {"refresh", "", noSession, false, ``},
	{"create", "chat", noSession, false, `{}`},
	{"claim", "runtime", noSession, false, `{"runtime":"r"}`},
	{"follow", "chat runtime", access.Read, false, `{"since":0}`},
	{"unfollow", "chat runtime", noSession, false, `{}`}, // of what is not followed: it says nothing
	{"send", "chat", access.Write, false, `{"client_msg_id":"z","text":"Stop"}`},
	{"answer", "chat", access.Approve, false, `{"client_msg_id":"z","question":"{question}","text":"Berlin"}`},
	{"edit", "chat", access.Write, false, `{"message":"{message}","text":"Stop"}`},
	{"withdraw", "chat", access.Write, false, `{"message":"{message}"}`},
	{"move", "chat", access.Write, false, `{"message":"{message}"}`},
	{"cancel", "chat", access.Write, false, `{"waiting":"drop"}`},
	{"clear", "chat", access.Write, false, ``},
	{"policy", "chat", access.Own, false, `{"inbox.mode":"queue"}`},
	{"seen", "chat", access.Read, false, `{"seq":1}`},
	{"typing", "chat", access.Read, false, `{"on":true}`},
	{"watch_chats", "chats", noSession, false, `{"since":0}`}, {"unwatch_chats", "chats", noSession, false, ``},
	{"watch", "chat", noSession, false, ``}, {"unwatch", "chat", noSession, false, ``},
}

// The table names every route and every frame: a new one must be added, with the right
// that it needs.
func TestMatrixIsComplete(t *testing.T) {
	documented := make([]string, 0, 40)
	for path, item := range gatewaytest.Documents(t).HTTP.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	named := func(acts []act) (names []string) {
		for _, a := range acts {
			names = append(names, a.name)
		}
		slices.Sort(names)
		return names
	}
	slices.Sort(documented)
	if got := named(routes); !slices.Equal(got, documented) {
		t.Errorf("the table has %v\nthe server has %v", got, documented)
	}
	if got, want := named(commands), gatewaytest.Documents(t).Commands(); !slices.Equal(got, want) {
		t.Errorf("the table has %v\nthe server has %v", got, want)
	}
}

// What a person is told.
const (
	allowed   = "allowed"
	forbidden = "forbidden"
	hidden    = "hidden" // word for word what is said of a session that is not there
)

// verdict is what p must be told for an act in a session, or in a sub-session of it; served
// is a session of runtimes.
func (a act) verdict(p person, below, served bool) string {
	fits := a.scopes == "" || slices.ContainsFunc(strings.Fields(a.scopes), p.may)
	role := p.role
	if !p.may("chat") { // a runtime sees what runtimes answer, nothing else
		role = access.None
	}
	if served && p.may("runtime") && p.tenant == acme && strings.Contains(a.scopes, "runtime") {
		role = access.Writer
	}
	switch {
	case a.name == "DELETE /api/sessions/{id}" && p.may("admin") && p.tenant == acme && !below:
		return allowed
	case !fits:
		return forbidden
	case a.right == noSession:
		return allowed
	case role == access.None, below && !p.may("read:tools"):
		return hidden
	case !role.May(a.right), below && a.right != access.Read:
		return forbidden
	}
	return allowed
}

// stage is a session of ann's, with a sub-session, and one of runtimes.
type stage struct {
	*rig
	n int
}

func (s *stage) open(p person) (chat, outside conversation.SessionKey) {
	s.n++
	key := func(kind string) conversation.SessionKey {
		return conversation.SessionKey{Tenant: acme, Session: conversation.SessionID(fmt.Sprintf("%s%d", kind, s.n))}
	}
	chat, outside = key("c"), key("o")
	level := conversation.AccessPrivate
	if p.open {
		level = conversation.AccessTenant
	}
	members := map[conversation.UserID]access.Role{"wri": access.Writer, "app": access.Approver, "rea": access.Reader}
	joined := conversation.Event{Body: conversation.SessionUpdated{Members: members}}
	s.sessions.Play(func(w *machinetest.World) {
		for key, agent := range map[conversation.SessionKey]conversation.AgentName{chat: "", outside: conversation.External} {
			w.Do(key, conversation.Create{Owner: "ann", Access: level, Agent: agent})
			w.Append(key, true, joined)
			w.Do(key, conversation.Say{Author: "ann", Via: conversation.ViaHTTP, ClientMsgID: "a", Text: "Deploy"})
		}
		w.Do(below(chat), conversation.Tell{Agent: "developer", Owner: "ann", Access: level, Objective: "Do it"})
		w.Session(chat).Answer(machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
		w.Rest()
		w.Do(chat, conversation.Say{Author: "ann", Via: conversation.ViaHTTP, ClientMsgID: "b", Text: "And then?", Mode: conversation.ModeQueue})
	})
	return chat, outside
}

func below(key conversation.SessionKey) conversation.SessionKey {
	key.Session += "/d1"
	return key
}

// stored is all that is stored of sessions.
func (s *stage) stored(keys ...conversation.SessionKey) string {
	var all []any
	s.sessions.Play(func(w *machinetest.World) {
		for _, key := range keys {
			if found := w.Session(key); found != nil {
				all = append(all, found.Events())
			} else {
				all = append(all, "erased")
			}
		}
	})
	text, err := json.Marshal(all)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// fill puts a session's ids into a path or a body.
func fill(text string, key conversation.SessionKey, escape bool) string {
	id := string(key.Session)
	slash := id
	if escape {
		slash = strings.ReplaceAll(id, "/", "%2F")
	}
	return strings.NewReplacer("{id}", slash, "{message}", "m2-"+slash, "{first}", "m1-"+slash, "{question}", "q1", "{call}", "c1", "{taskId}", "t1-"+slash, "{user}", "eve").Replace(text)
}

// ask makes a request for p and gives back the code and the sentence of a refusal. The
// documents are not asked: they want a bad request refused as one, also by those who
// may not see what it is about.
func (s *stage) ask(p person, a act, key conversation.SessionKey, body string) (code, detail string) {
	s.t.Helper()
	method, path, _ := strings.Cut(a.name, " ")
	if a.outside && strings.Contains(path, "{message}") {
		path = strings.ReplaceAll(path, "{message}", "{first}")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+fill(path, key, true), strings.NewReader(fill(body, key, false)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.name)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 300 {
		return "", ""
	}
	b, err := io.ReadAll(resp.Body)
	var said struct{ Code, Detail string }
	if err != nil || json.Unmarshal(b, &said) != nil {
		s.t.Fatalf("%s: %d %s %v", a.name, resp.StatusCode, b, err)
	}
	return said.Code, said.Detail
}

// judge names what a person was told; nobody is what is said of a session that is not
// there.
func judge(code, detail, nobody string) string {
	switch {
	case code == string(conversation.Forbidden):
		return forbidden
	case code == string(conversation.NotFound) && detail == nobody:
		return hidden
	case code == string(conversation.Unauthenticated):
		return code
	}
	return allowed // what else it is told says that the session is there
}

// Who may do what: every route by everybody, in a session and below it. Where somebody
// may not, nothing is written, and what they may not see is answered as if it were not
// there, also when the request is wrong in itself.
// M-25: reads and writes of another tenant.
func TestMatrixOfRoutes(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}), withChats(gatewaytest.NewChats()))}
	absent := conversation.SessionKey{Tenant: acme, Session: "nothing"}
	for _, a := range slices.Concat(routes, more) {
		if a.scopes == "" {
			continue // for everybody, without a credential
		}
		nobody := "" // what is said of a session that is not there
		if a.right != noSession {
			asker := everybody[0]
			if a.scopes == "runtime" {
				asker = everybody[slices.IndexFunc(everybody, func(p person) bool { return p.name == "runtime" })]
			}
			var code string
			if code, nobody = s.ask(asker, a, absent, a.body); code != string(conversation.NotFound) {
				t.Fatalf("%s of nothing: %s", a.name, code)
			}
		}
		for _, p := range everybody {
			chat, outside := s.open(p)
			for _, key := range []conversation.SessionKey{below(chat), chat, outside} {
				if a.right == noSession && key != chat {
					continue
				}
				before := s.stored(chat, outside, below(chat))
				want := a.verdict(p, key == below(chat), key == outside)
				bodies := []string{a.body}
				if want == hidden && a.body != "" && !strings.Contains(a.body, "{id}") {
					bodies = append(bodies, `{"text":1,"status":1,"title":1,"access":7}`, `{`)
				}
				for _, body := range bodies {
					code, detail := s.ask(p, a, key, body)
					if got := judge(code, detail, nobody); got != want {
						t.Errorf("%s of %s by the %s, with %q: %s (%s: %s), want %s", a.name, key.Session, p.name, body, got, code, detail, want)
					}
				}
				if after := s.stored(chat, outside, below(chat)); want != allowed && after != before {
					t.Errorf("%s of %s by the %s was %s and changed something:\n%s\n%s", a.name, key.Session, p.name, want, before, after)
				}
			}
		}
	}
}

// An administrator erases anybody's session in the tenant, and nothing else of it; that is
// written down before, and what cannot be written down is not done. Of their own session it
// is not.
func TestAdministratorErases(t *testing.T) {
	audit := &service.MemoryAudit{}
	s := &stage{rig: start(t, withAuth(credentials{}), func(_ *gateway.Config, d *gateway.Deps) { d.Audit = audit })}
	admin := everybody[slices.IndexFunc(everybody, func(p person) bool { return p.may("admin") })]
	as := []string{"Authorization", "Bearer " + admin.name}
	chat, _ := s.open(admin)
	audit.Refuse = errors.New("the disk is full")
	s.call("DELETE", "/api/sessions/"+string(chat.Session), "", as...).problem(t, 503, "unavailable")
	audit.Refuse = nil
	s.call("DELETE", "/api/sessions/"+string(chat.Session), "", as...).want(t, 204)
	s.call("DELETE", "/api/sessions/"+string(chat.Session), "", as...).problem(t, 404, "not_found")
	own := s.call("POST", "/api/sessions", "{}", as...).want(t, 201).get(t, "session")
	s.call("DELETE", "/api/sessions/"+own, "", as...).want(t, 204)
	acts, _, err := audit.Acts(t.Context(), acme, "", 10)
	if err != nil || len(acts) != 1 {
		t.Fatalf("%+v %v", acts, err)
	}
	a := acts[0]
	if a.Act != "session.erase" || a.Object != string(chat.Session) || a.User != admin.user || a.Credential != admin.name || a.Detail != "of ann" || a.Address != "127.0.0.1" {
		t.Errorf("%+v", a)
	}
}

// An administrator sets policies above what is configured, on every way; that is written
// down before, and what cannot be written down is not done. What is within it is nobody's
// business, and others are refused.
func TestAdministratorLiftsCeilings(t *testing.T) {
	audit := &service.MemoryAudit{}
	s := &stage{rig: start(t, withAuth(credentials{}), func(_ *gateway.Config, d *gateway.Deps) { d.Audit = audit })}
	acts := func() []service.Act {
		list, _, err := audit.Acts(t.Context(), acme, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	admin := everybody[slices.IndexFunc(everybody, func(p person) bool { return p.may("admin") })]
	for _, p := range []person{admin, everybody[0]} {
		as := []string{"Authorization", "Bearer " + p.name}
		c := gatewaytest.Dial(t, s.addr)
		c.Do("hello", "", obj{"proto": 1, "token": p.name})
		id := s.call("POST", "/api/sessions", `{"policy":{"task.max_steps":2}}`, as...).want(t, 201).get(t, "session")
		route := func(method, path string) func(int) string {
			return func(steps int) string {
				return s.call(method, path, fmt.Sprintf(`{"policy":{"task.max_steps":%d}}`, steps), as...).code()
			}
		}
		ways := []struct {
			name string
			set  func(steps int) (code string)
		}{
			{"POST", route("POST", "/api/sessions")},
			{"PATCH", route("PATCH", "/api/sessions/"+id)},
			{"create", func(n int) string { return codeOf(c.Do("create", "", obj{"policy": obj{"task.max_steps": n}})) }},
			{"policy", func(n int) string { return codeOf(c.Do("policy", id, obj{"task.max_steps": n})) }},
		}
		for i, way := range ways {
			above, before := 501+i, len(acts())
			if code := way.set(3); code != "" || len(acts()) != before {
				t.Errorf("%s by the %s, within: %q, %d acts", way.name, p.name, code, len(acts())-before)
			}
			if p.name != admin.name {
				if code := way.set(above); code != "bad_request" || len(acts()) != before {
					t.Errorf("%s by the %s, above: %q, %d acts", way.name, p.name, code, len(acts())-before)
				}
				continue
			}
			audit.Refuse = errors.New("the disk is full")
			if code := way.set(above); code != "unavailable" {
				t.Errorf("%s, not written down: %q", way.name, code)
			}
			audit.Refuse = nil
			if code := way.set(above); code != "" || len(acts()) != before+1 {
				t.Fatalf("%s above: %q, %d acts", way.name, code, len(acts())-before)
			}
			if a := acts()[0]; a.Act != "policy.ceiling" || a.Detail != fmt.Sprintf("task.max_steps=%d", above) || a.Object == "" || a.User != p.user {
				t.Errorf("%s: %+v", way.name, a)
			}
		}
	}
}

// code is that of a refusal; "" = it was none.
func (a answer) code() string {
	var said struct{ Code string }
	_ = json.Unmarshal(a.body, &said)
	return said.Code
}

func codeOf(f gatewaytest.Frame) string {
	if f.Error == nil {
		return ""
	}
	return f.Error.Code
}

// The same of the commands of a socket.
// M-25.
func TestMatrixOfFrames(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}), withChats(gatewaytest.NewChats()))}
	for _, p := range everybody {
		c := gatewaytest.Dial(t, s.addr)
		if f := c.Do("hello", "", obj{"proto": 1, "token": p.name}); f.Type != "ok" {
			t.Fatalf("%s: %s", p.name, f.Raw)
		}
		for _, a := range commands {
			if a.scopes == "" {
				continue
			}
			chat, outside := s.open(p)
			for _, key := range []conversation.SessionKey{chat, below(chat), {Tenant: acme, Session: "nothing/d1"}} {
				if a.right == noSession && key != chat {
					continue
				}
				want := a.verdict(p, key != chat, false)
				if key.Session.Root() == "nothing" && want != forbidden {
					want = hidden
				} else if key.Session.Root() == "nothing" && slices.ContainsFunc(strings.Fields(a.scopes), p.may) {
					want = hidden
				}
				before := s.stored(chat, outside, below(chat))
				bodies := []string{a.body}
				if want == hidden {
					bodies = append(bodies, `{"text":1,"seq":"x","on":2,"message":3,"since":"x","reason":1,"client_msg_id":3,"inbox.mode":{}}`)
				}
				for _, body := range bodies {
					session := string(key.Session)
					if slices.Contains([]string{"create", "claim", "watch_chats", "unwatch_chats", "watch", "unwatch"}, a.name) {
						session = ""
					}
					var data any
					if body != "" {
						data = json.RawMessage(fill(body, key, false))
					}
					if a.name == "typing" && want == allowed { // for those who follow
						c.Do("follow", session, nil)
					}
					f := c.Do(a.name, session, data)
					got := allowed
					if f.Error != nil {
						got = judge(f.Error.Code, f.Error.Message, "there is no such session")
					}
					if got != want {
						t.Errorf("%s of %s by the %s, with %s: %s, want %s", a.name, key.Session, p.name, body, f.Raw, want)
					}
				}
				if after := s.stored(chat, outside, below(chat)); want != allowed && after != before {
					t.Errorf("%s of %s by the %s changed something:\n%s\n%s", a.name, key.Session, p.name, before, after)
				}
			}
		}
	}
}

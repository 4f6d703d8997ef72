package a2a_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/a2a"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/gateway/waystest"
)

func TestMain(m *testing.M) { waystest.Main(m) }

// rig is a running server with a stand-in for the engine, of which the test plays the model.
type rig struct {
	*waystest.Rig
	t        *testing.T
	sessions *gatewaytest.Sessions
	url      string
	stop     func() error
	binding  string
}

type setup = waystest.Setup

// The bindings of the protocol.
const (
	rpc  = "JSONRPC"
	rest = "HTTP+JSON"
)

var bindings = []string{rpc, rest}

func start(t *testing.T, binding string, changes ...setup) *rig {
	t.Helper()
	agents := func(c *gateway.Config, _ *gateway.Deps) {
		c.Offer.Agents = []protocol.OfferedAgent{{Name: "coordinator", Description: "Leads", Model: "scripted"}, {Name: "developer", Model: "scripted"}}
	}
	s := waystest.Begin(t, append([]setup{agents}, changes...)...)
	return &rig{s, t, s.Sessions, s.URL, s.Stop, binding}
}

// both runs a test over each binding.
func both(t *testing.T, test func(t *testing.T, binding string)) {
	for _, binding := range bindings {
		t.Run(binding, func(t *testing.T) { test(t, binding) })
	}
}

var withKeys = waystest.WithKeys

// answer is what a request was answered with.
type answer struct {
	*waystest.Reply
	t    *testing.T
	body *bufio.Reader
	end  context.CancelFunc
}

// call makes a request. Headers come in pairs.
func (r *rig) call(method, path, body string, headers ...string) *answer {
	r.t.Helper()
	a := r.Call(method, path, body, headers...)
	return &answer{a, r.t, a.Lines, a.End}
}

func (a *answer) all() string { a.t.Helper(); return a.All() }

func (a *answer) want(status int) *answer { a.t.Helper(); a.Want(status); return a }

func (a *answer) until(text string) string { a.t.Helper(); return a.Until(text) }

// request makes a request of the protocol over the rig's binding; params are those of JSON-RPC.
func (r *rig) request(method, params string, headers ...string) *answer {
	r.t.Helper()
	headers = append([]string{"A2A-Version", "1.0"}, headers...)
	if r.binding == rpc {
		return r.call("POST", "/a2a", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`, headers...)
	}
	var p struct{ ID, Tenant string }
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		r.t.Fatal(err)
	}
	at := "/a2a"
	if p.Tenant != "" {
		at += "/" + p.Tenant
	}
	switch method {
	case "SendMessage":
		return r.call("POST", at+"/message:send", params, headers...)
	case "SendStreamingMessage":
		return r.call("POST", at+"/message:stream", params, headers...)
	case "CancelTask":
		return r.call("POST", at+"/tasks/"+p.ID+":cancel", "", headers...)
	case "SubscribeToTask":
		return r.call("POST", at+"/tasks/"+p.ID+":subscribe", "", headers...)
	case "GetExtendedAgentCard":
		return r.call("GET", at+"/extendedAgentCard", "", headers...)
	}
	var all map[string]any
	if err := json.Unmarshal([]byte(params), &all); err != nil {
		r.t.Fatal(err)
	}
	query := []string{}
	for name, value := range all {
		if name != "id" && name != "tenant" {
			query = append(query, name+"="+fmt.Sprint(value))
		}
	}
	path := at + "/tasks"
	if method == "GetTask" {
		path += "/" + p.ID
	}
	return r.call("GET", path+"?"+strings.Join(query, "&"), "", headers...)
}

// wire is a task as it comes.
type wire struct {
	ID, ContextID string
	Status        struct {
		State, Timestamp string
		Message          *struct{ Parts []struct{ Text string } }
	}
	Artifacts []struct {
		ArtifactID string
		Parts      []struct{ Text string }
	}
	History []struct {
		MessageID, Role string
		Parts           []struct{ Text, URL string }
	}
	Metadata struct {
		Parley struct {
			Session  string
			Receipts []struct{ MessageID, How string }
		}
	}
}

func (w *wire) texts() (all []string) {
	for _, a := range w.Artifacts {
		all = append(all, a.Parts[0].Text)
	}
	return all
}

// result is the result of a request that has one.
func (a *answer) result(dst any) {
	a.t.Helper()
	body := a.want(200).all()
	var envelope struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal([]byte(body), &envelope); err != nil || envelope.Error != nil {
		a.t.Fatalf("the answer is %s", body)
	}
	if envelope.Result != nil {
		body = string(envelope.Result)
	}
	if err := json.Unmarshal([]byte(body), dst); err != nil {
		a.t.Fatalf("%v: %s", err, body)
	}
}

// task is the task that a request was answered with.
func (a *answer) task() *wire {
	a.t.Helper()
	var of struct {
		Task *wire
		wire
	}
	a.result(&of)
	if of.Task != nil {
		return of.Task
	}
	return &of.wire
}

// refused is what is wrong with a request: its reason.
func (a *answer) refused() (reason, text string) {
	a.t.Helper()
	type info struct{ Reason, Domain string }
	var e struct {
		Error struct {
			Message       string
			Data, Details []info
		}
	}
	text = a.all()
	if err := json.Unmarshal([]byte(text), &e); err != nil || len(e.Error.Data)+len(e.Error.Details) != 1 || e.Error.Message == "" {
		a.t.Fatalf("status %d: %v %s", a.StatusCode, err, text)
	}
	return append(e.Error.Data, e.Error.Details...)[0].Reason, text
}

// says are the parameters of a message; more is put into it.
func says(id, text, more string) string {
	b, _ := json.Marshal(text)
	return `{"message":{"messageId":"` + id + `","role":"ROLE_USER","parts":[{"text":` + string(b) + `}]` + more + `}}`
}

// atOnce are the same, and the answer does not wait.
func atOnce(id, text, more string) string {
	return strings.TrimSuffix(says(id, text, more), "}") + `,"configuration":{"returnImmediately":true}}`
}

// model plays the open model call of a task's session.
func (r *rig) model(w *wire, items ...conversation.Item) {
	r.sessions.Model(gatewaytest.Key(w.Metadata.Parley.Session), items...)
}

func (r *rig) show(w *wire, e conversation.Ephemeral) {
	r.sessions.Show(gatewaytest.Key(w.Metadata.Parley.Session), e)
}

func (w *wire) delta(draft conversation.DraftID, at int, text string) conversation.Delta {
	return conversation.Delta{Task: conversation.TaskID(w.ID), Draft: draft, At: at, Text: text}
}

var call = machinetest.Call

// text is a text of the model, which may have streamed.
func text(s string) conversation.Item {
	return conversation.Item{Kind: conversation.ItemText, Text: s, Streamed: true}
}

// follows is a stream of a request.
func (r *rig) follows(method, params string, headers ...string) *answer {
	r.t.Helper()
	a := r.request(method, params, headers...).want(200)
	if kind := a.Header.Get("Content-Type"); kind != "text/event-stream" {
		r.t.Fatalf("it is %s: %s", kind, a.all())
	}
	return a
}

// has is what a client has that has read streams, which must be right.
func has(t *testing.T, streams ...string) string {
	t.Helper()
	s := a2a.Read(streams...)
	if len(s.Wrong) > 0 {
		t.Errorf("%q in\n%s", s.Wrong, strings.Join(streams, "----\n"))
	}
	return s.Has()
}

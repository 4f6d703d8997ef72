package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
)

func (h *host) subscribe(session conversation.SessionKey, how string) {
	h.t.Helper()
	if m := h.post(`{"jsonrpc":"2.0","id":1,"method":"resources/` + how + `","params":{"uri":"parley://sessions/` + string(session.Session) + `"}}`).whole(); m.Error != nil {
		h.t.Fatal(m.Error)
	}
}

func updated(e event, session conversation.SessionKey) bool {
	return e.m.Method == "notifications/resources/updated" && strings.Contains(e.raw, `"parley://sessions/`+string(session.Session)+`"`)
}

// A host hears of what it has subscribed to, before its stream began and while it runs; also at
// another node, when it was cut off, of what has come meanwhile.
func TestHear(t *testing.T) {
	w := newWorld(t)
	here, there := w.node(), w.node()
	h := here.host("", `{}`)
	one, two := w.sessions.Open("one", "local"), w.sessions.Open("two", "local")
	h.subscribe(one, "subscribe")
	w.sessions.Say(one, 1)
	a := h.get("")
	heard := a.until("notifications/resources/updated")
	if !updated(heard[len(heard)-1], one) {
		t.Errorf("%v", raws(heard))
	}
	h.subscribe(two, "subscribe")
	w.sessions.Say(two, 1)
	heard = a.until("notifications/resources/updated")
	last := heard[len(heard)-1]
	if !updated(last, two) {
		t.Errorf("%v", raws(heard))
	}
	a.end()
	w.sessions.Say(one, 1)
	w.sessions.Do(func() {})
	b := h.at(there).get(last.id)
	heard = b.until("notifications/resources/updated")
	if !updated(heard[len(heard)-1], one) {
		t.Errorf("%v", raws(heard))
	}
	h.at(there).subscribe(one, "unsubscribe")
	b.next() // the id that says so
	w.sessions.Say(one, 1)
	w.sessions.Say(two, 1)
	heard = b.until("notifications/resources/updated")
	if !updated(heard[len(heard)-1], two) {
		t.Errorf("%v", raws(heard))
	}
}

// The newest of a host's streams is the one: nothing is said twice.
func TestHearOnce(t *testing.T) {
	n := start(t)
	h := n.host("", `{}`)
	one := n.sessions.Open("one", "local")
	h.subscribe(one, "subscribe")
	a := h.get("")
	a.next()
	b := h.get("")
	if all := a.rest(); len(all) != 0 {
		t.Errorf("%v", raws(all))
	}
	n.sessions.Say(one, 1)
	heard := b.until("notifications/resources/updated")
	if !updated(heard[len(heard)-1], one) {
		t.Errorf("%v", raws(heard))
	}
	if s := h.send("DELETE", "", h.headers...).StatusCode; s != 204 {
		t.Error(s)
	}
	b.rest()
}

// Of a session that is gone nothing more is heard, and of others all the same.
func TestHearOfErased(t *testing.T) {
	n := start(t)
	h := n.host("", `{}`)
	one, two := n.sessions.Open("one", "local"), n.sessions.Open("two", "local")
	h.subscribe(one, "subscribe")
	h.subscribe(two, "subscribe")
	a := h.get("")
	a.next()
	if err := n.sessions.Erase(t.Context(), one, "local"); err != nil {
		t.Fatal(err)
	}
	n.sessions.Say(two, 1)
	heard := a.until("notifications/resources/updated")
	if !updated(heard[len(heard)-1], two) {
		t.Errorf("%v", raws(heard))
	}
}

// The newest version listens on the stream of a request.
func TestListen(t *testing.T) {
	n := start(t)
	one := n.sessions.Open("one", "local")
	listen := func(uri string) *answer {
		return n.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":[%q]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, uri),
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	}
	a := listen("parley://sessions/one")
	a.until("notifications/subscriptions/acknowledged")
	n.sessions.Say(one, 1)
	heard := a.until("notifications/resources/updated")
	if e := heard[len(heard)-1]; !updated(e, one) || !strings.Contains(e.raw, `"io.modelcontextprotocol/subscriptionId":"L"`) || e.id != "" {
		t.Errorf("%+v", e)
	}
	none := listen("parley://sessions/none").until("")
	if none[len(none)-1].m.Error == nil {
		t.Errorf("%v", raws(none))
	}
	go func() { _ = n.stop() }()
	a.rest()
}

// Sessions are resources, also those of delegations.
func TestResources(t *testing.T) {
	n := start(t)
	n.sessions.Open("one", "local")
	n.sessions.Open("one/d1", "local")
	h := n.host("", `{}`)
	read := func(uri string) message {
		return h.post(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + uri + `"}}`).whole()
	}
	for _, id := range []string{"one", "one%2Fd1"} {
		if m := read("parley://sessions/" + id); m.Error != nil || !strings.Contains(string(m.Result), `parley://sessions/`+id) {
			t.Errorf("%s: %s %+v", id, m.Result, m.Error)
		}
	}
	for _, uri := range []string{"parley://sessions/none", "parley://sessions/", "parley://other/one", "file:///etc/passwd", "parley://sessions/%zz"} {
		if m := read(uri); m.Error == nil {
			t.Errorf("%s: %s", uri, m.Result)
		}
	}
	list := h.post(`{"jsonrpc":"2.0","id":1,"method":"resources/list"}`).whole()
	if !strings.Contains(string(list.Result), `"parley://sessions/one"`) {
		t.Errorf("%s", list.Result)
	}
}

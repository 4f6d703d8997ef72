package gateway_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway/gatewaytest"
)

// A session that is made private is over for those who followed it, at that moment and on
// every way: a socket is told and stays, a stream ends, a request that waits is answered.
// Sessions below it as well. They are not shown the event that did it; the owner is, and
// goes on.
// PROTOCOL.md, rule 4.7.
func TestSessionMadePrivate(t *testing.T) {
	s := &stage{rig: start(t, withAuth(credentials{}))}
	guest := everybody[4]
	if !guest.open {
		t.Fatal("want the user of an open session")
	}
	chat, _ := s.open(guest)
	id, sub := string(chat.Session), string(below(chat).Session)
	as := func(p person) []string { return []string{"Authorization", "Bearer " + p.name} }
	connect := func(p person) *gatewaytest.Client {
		c := gatewaytest.Dial(t, s.addr)
		c.Do("hello", "", obj{"proto": 1, "token": p.name})
		for _, session := range []string{id, sub} {
			if f := c.Do("follow", session, obj{"tail": 0}); f.Type != "ok" {
				t.Fatalf("%s: %s", p.name, f.Raw)
			}
		}
		return c
	}
	owner, other := connect(everybody[0]), connect(guest)
	next, _ := s.streamOf("/api/sessions/"+id+"/stream", as(guest)...)
	waited := make(chan answer, 1)
	go func() {
		waited <- s.call("POST", "/api/sessions/"+id+"/messages?wait=2m", `{"text":"And mine?","client_msg_id":"g","mode":"queue"}`, as(guest)...)
	}()
	other.Until(func(f gatewaytest.Frame) bool { return f.Type == "message_accepted" && f.Session == id })
	for end := time.Now().Add(patience); s.metric("parley_gateway_follows") < 6; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the request does not follow")
		}
	}
	s.call("PATCH", "/api/sessions/"+id, `{"access":"private"}`, as(everybody[0])...).want(t, 200)
	for range 2 {
		f := other.Until(func(f gatewaytest.Frame) bool { return f.Type == "gone" || f.Type == "session_updated" })
		if f.Type != "gone" || f.Get("reason") != "forbidden" {
			t.Errorf("%s", f.Raw)
		}
	}
	for {
		e, more := next()
		if e.event == "session_updated" {
			t.Errorf("the stream shows %s", e.data)
		}
		if !more {
			break
		}
		if e.event == "gone" && !strings.Contains(e.data, `"reason":"forbidden"`) {
			t.Errorf("%s", e.data)
		}
	}
	a := <-waited
	a.problem(t, 404, conversation.NotFound)
	if f := owner.Until(func(f gatewaytest.Frame) bool { return f.Type == "gone" || f.Type == "session_updated" }); f.Type != "session_updated" {
		t.Errorf("the owner: %s", f.Raw)
	}
	for _, session := range []string{id, sub} {
		if f := other.Do("follow", session, nil); f.Error == nil || f.Error.Code != "not_found" {
			t.Errorf("%s", f.Raw)
		}
	}
	if f := other.Do("ping", "", nil); f.Type != "ok" {
		t.Errorf("the socket: %s", f.Raw)
	}
	if n := s.metric("parley_gateway_follows"); n != 2 {
		t.Errorf("%v follows are counted, want the owner's 2", n)
	}
}

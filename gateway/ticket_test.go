package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"

	"github.com/coder/websocket"
)

// dialTicket opens a socket with a ticket and says hello without a token.
func (r *rig) dialTicket(ticket string) (*gatewaytest.Client, gatewaytest.Frame) {
	r.t.Helper()
	ws, _, err := websocket.Dial(r.t.Context(), "ws://"+r.addr+"/ws?ticket="+ticket, &websocket.DialOptions{Subprotocols: []string{"parley.v1"}})
	if err != nil {
		r.t.Fatal(err)
	}
	c := gatewaytest.Over(r.t, ws)
	return c, c.Do("hello", "", obj{"proto": 1})
}

// A ticket opens one socket or one stream, and nothing else; it ends with what it was
// made with. PROTOCOL.md, rules 8.18, 9.5.
func TestTickets(t *testing.T) {
	a := &passes{}
	a.put("chat", 0, gateway.ScopeChat)
	a.put("tools", 0, gateway.ScopeReadTools)
	r := start(t, withAuth(a), func(c *gateway.Config, _ *gateway.Deps) { c.SignIn.Tickets = 3 })
	r.sessions.Open("s1", "ann")
	bearer := []string{"Authorization", "Bearer chat"}
	ticket := func() string {
		t.Helper()
		made := r.call("POST", "/api/tickets", "", bearer...).want(t, http.StatusCreated)
		if until, err := time.Parse(time.RFC3339, made.get(t, "expires_at")); err != nil || time.Until(until) > 30*time.Second {
			t.Errorf("%s", made.body)
		}
		return made.get(t, "ticket")
	}
	r.call("POST", "/api/tickets", "").problem(t, 401, conversation.Unauthenticated)
	r.call("POST", "/api/tickets", "", "Authorization", "Bearer tools").problem(t, 403, conversation.Forbidden)

	one := ticket()
	for _, route := range []string{"GET /api/sessions", "GET /api/sessions/s1", "GET /api/sessions/s1/events", "POST /api/tickets", "DELETE /api/sessions/s1"} {
		method, path, _ := strings.Cut(route, " ")
		r.call(method, path+"?ticket="+one, "").problem(t, 401, conversation.Unauthenticated)
		r.call(method, path, "", "Authorization", "Bearer "+one).problem(t, 401, conversation.Unauthenticated)
	}
	if f := gatewaytest.Dial(t, r.addr).Do("hello", "", obj{"proto": 1, "token": one}); f.Error == nil || f.Error.Code != "unauthenticated" {
		t.Errorf("a ticket as a token: %s", f.Raw)
	}
	socket, f := r.dialTicket(one)
	if f.Get("user") != "ann" {
		t.Errorf("%s", f.Raw)
	}
	if _, f := r.dialTicket(one); f.Error == nil || f.Error.Code != "unauthenticated" {
		t.Errorf("the same again: %s", f.Raw)
	}
	two := ticket()
	next, _ := r.streamOf("/api/sessions/s1/stream?ticket=" + two)
	if e := skipComments(next); e.event != "synced" {
		t.Errorf("%+v", e)
	}
	r.call("GET", "/api/sessions/s1/stream?ticket="+two, "").problem(t, 401, conversation.Unauthenticated)

	left := ticket()
	ticket()
	ticket()
	r.call("POST", "/api/tickets", "", bearer...).problem(t, 429, conversation.RateLimited)
	a.revoke("chat")
	if code, _, _ := socket.Closed(); code != 4501 {
		t.Errorf("the socket was closed with %d", code)
	}
	for {
		if _, more := next(); !more {
			break
		}
	}
	if _, f := r.dialTicket(left); f.Error == nil || f.Error.Code != "unauthenticated" {
		t.Errorf("of a key that was taken back: %s", f.Raw)
	}
	if strings.Contains(r.log.String(), one) || strings.Contains(r.log.String(), left) {
		t.Error("the log holds a ticket")
	}
}

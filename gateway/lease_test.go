package gateway_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/service"
)

var _ service.Watcher = (*passes)(nil)

// passes is an Authenticator whose tokens a test makes, and takes back.
type passes struct {
	mu      sync.Mutex
	byToken map[string]service.Principal
	life    map[string]time.Duration // of tokens that nobody has used yet
	watched map[string][]func()      // by credential
}

func (*passes) Mode() string { return "keys" }

// put makes a token of ann's, which ends so long after it is first used; life 0 = never.
func (a *passes) put(token string, life time.Duration, scopes ...string) {
	p := service.Principal{Tenant: "default", User: "ann", Scopes: scopes, Credential: token}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byToken == nil {
		a.byToken, a.watched, a.life = map[string]service.Principal{}, map[string][]func(){}, map[string]time.Duration{}
	}
	a.byToken[token], a.life[token] = p, life
}

func (a *passes) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p, known := a.byToken[c.Token]
	if life := a.life[c.Token]; known && life > 0 {
		p.Expires = time.Now().Add(life)
		a.byToken[c.Token], a.life[c.Token] = p, 0
	}
	switch {
	case !known:
		return nil, conversation.Errorf(conversation.Unauthenticated, "who is that")
	case !p.Expires.IsZero() && time.Now().After(p.Expires):
		return nil, service.ErrTokenExpired
	}
	return &p, nil
}

func (a *passes) Watch(p *service.Principal, ended func()) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.byToken[p.Credential]; !known {
		return nil
	}
	a.watched[p.Credential] = append(a.watched[p.Credential], ended)
	return func() {}
}

// revoke takes a token back.
func (a *passes) revoke(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byToken, token)
	for _, ended := range a.watched[token] {
		go ended()
	}
}

// anybody lets in whoever comes, on a server that strangers may reach.
type anybody struct{ gateway.NoAuth }

func (anybody) Mode() string { return "keys" }

// greet connects and says hello with a token.
func (r *rig) greet(token string) *gatewaytest.Client {
	r.t.Helper()
	c := gatewaytest.Dial(r.t, r.addr)
	if f := c.Do("hello", "", obj{"proto": 1, "token": token}); f.Type != "ok" {
		r.t.Fatalf("hello was answered %s", f.Raw)
	}
	return c
}

// What ends a credential ends what it has open, at that moment: no heartbeat has to
// come first.
func TestCredentialEnds(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name       string
		life       time.Duration
		close      int
		claim      conversation.Code
		afterwards conversation.Code
	}{
		{"expired", 2 * time.Second, 4007, conversation.TokenExpired, conversation.TokenExpired},
		{"revoked", 0, 4501, conversation.Unauthenticated, conversation.Unauthenticated},
	}
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			a := &passes{}
			a.put("mine", end.life, gateway.ScopeChat, gateway.ScopeRuntime)
			r := start(t, withAuth(a), times(func(x *gateway.Times) { x.Heartbeat, x.ReadDeadline = time.Hour, 2*time.Hour }))
			r.sessions.Claims = func(ctx context.Context, _ conversation.ClaimRequest) ([]conversation.HandedOut, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			r.sessions.Open("s1", "ann")
			c := r.greet("mine")
			if f := c.Do("follow", "s1", obj{"since": 0}); f.Type != "ok" {
				t.Fatalf("%s", f.Raw)
			}
			bearer := []string{"Authorization", "Bearer mine"}
			next, _ := r.streamOf("/api/sessions/s1/stream", bearer...)
			var waits sync.WaitGroup
			waits.Go(func() {
				// Accepted it is; what came of it is for those who may read it.
				r.call("POST", "/api/sessions/s1/messages?wait=5m", `{"text":"x"}`, bearer...).want(t, http.StatusAccepted)
			})
			waits.Go(func() {
				r.call("POST", "/api/runtime/claim", `{"runtime":"w","wait":"30s"}`, bearer...).problem(t, http.StatusUnauthorized, end.claim)
			})
			if end.life == 0 {
				c.Until(func(f gatewaytest.Frame) bool { return f.Type == "message_accepted" }) // ?wait is there
				a.revoke("mine")
			}
			if code, reason, _ := c.Closed(); code != end.close {
				t.Errorf("the socket was closed with %d %s", code, reason)
			}
			var last sse
			for {
				e, more := next()
				if !more {
					break
				}
				last = e
			}
			if last.event != "goaway" || !strings.Contains(last.data, map[bool]string{true: "4007", false: "4501"}[end.life > 0]) {
				t.Errorf("the stream ended with %+v", last)
			}
			waits.Wait()
			r.call("GET", "/api/sessions", "", bearer...).problem(t, http.StatusUnauthorized, end.afterwards)
		})
	}
}

// What a client sends after the end of its token has no effect.
func TestSendAfterExpiry(t *testing.T) {
	a := &passes{}
	a.put("mine", time.Second, gateway.ScopeChat)
	r := start(t, withAuth(a), times(func(x *gateway.Times) { x.Heartbeat = 4 * time.Second }))
	r.sessions.Open("s1", "ann")
	c := r.greet("mine")
	waitFor(t, func() bool {
		_, err := a.Authenticate(t.Context(), service.Credential{Token: "mine"})
		return err != nil
	})
	c.Write(gatewaytest.Command("send", "late", "s1", obj{"client_msg_id": "a", "text": "x"}))
	code, _, before := c.Closed()
	if code != 4007 {
		t.Errorf("closed with %d", code)
	}
	for _, f := range before {
		if f.Type == "ok" {
			t.Errorf("%s", f.Raw)
		}
	}
}

// A refresh to fewer scopes counts from its answer on for everything that the
// connection has open.
func TestRefreshTakesScopes(t *testing.T) {
	t.Parallel()
	const tools, chat, runtime = gateway.ScopeReadTools, gateway.ScopeChat, gateway.ScopeRuntime
	for _, row := range []struct {
		name   string
		scopes []string // of the second token
		ends   []string // follows that end
	}{
		{"read:tools", []string{chat, runtime}, []string{"s1/d1"}},
		{"chat", []string{tools, runtime}, []string{"s1", "s1/d1"}},
		{"runtime", []string{chat, tools}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := &passes{}
			a.put("all", 0, chat, runtime, tools)
			a.put("fewer", 0, row.scopes...)
			r := start(t, withAuth(a))
			r.sessions.Claims = func(ctx context.Context, _ conversation.ClaimRequest) ([]conversation.HandedOut, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			key := r.sessions.Open("s1", "ann")
			r.sessions.Open("s1/d1", "ann")
			c := r.greet("all")
			for _, session := range []string{"s1", "s1/d1"} {
				if f := c.Do("follow", session, obj{"since": 0}); f.Type != "ok" {
					t.Fatalf("%s", f.Raw)
				}
				c.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" && f.Session == session })
			}
			claim := c.Send("claim", "", obj{"runtime": "w", "wait": "30s"})
			tool := func(call conversation.CallID) {
				r.sessions.Commit(key, conversation.Event{Body: conversation.ToolStarted{Call: call, Tool: "login", Args: `{"password":"hunter2"}`}})
			}
			tool("c1")
			if f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "tool_started" }); !strings.Contains(string(f.Raw), "hunter2") {
				t.Errorf("before the refresh: %s", f.Raw)
			}
			if f := c.Do("refresh", "", obj{"token": "fewer"}); f.Type != "ok" {
				t.Fatalf("%s", f.Raw)
			}
			for _, session := range row.ends {
				f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "gone" && f.Session == session })
				if f.Get("reason") != "forbidden" {
					t.Errorf("%s", f.Raw)
				}
			}
			tool("c2")
			r.sessions.Do(func() {}) // published
			c.Do("ping", "", nil)
			var shown []gatewaytest.Frame
			last := c.Send("ping", "", nil)
			for {
				f := c.Read()
				if f.Re != nil && *f.Re == last {
					break
				}
				shown = append(shown, f)
			}
			tools := slices.DeleteFunc(slices.Clone(shown), func(f gatewaytest.Frame) bool { return f.Type != "tool_started" })
			switch {
			case slices.Contains(row.ends, "s1"):
				if len(tools) > 0 {
					t.Errorf("after the end: %s", tools[0].Raw)
				}
			case len(tools) != 1:
				t.Errorf("%d calls were shown", len(tools))
			case slices.Contains(row.scopes, gateway.ScopeReadTools) != strings.Contains(string(tools[0].Raw), "hunter2"):
				t.Errorf("with %v: %s", row.scopes, tools[0].Raw)
			}
			refused := slices.ContainsFunc(shown, func(f gatewaytest.Frame) bool {
				return f.Re != nil && *f.Re == claim && f.Error != nil && f.Error.Code == "forbidden"
			})
			if want := !slices.Contains(row.scopes, runtime); refused != want {
				t.Errorf("the claim that waited was refused: %v", refused)
			}
			waitFor(t, func() bool { return r.metric("parley_gateway_follows") == float64(2-len(row.ends)) })
		})
	}
}

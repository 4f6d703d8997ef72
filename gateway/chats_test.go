package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway"
	"parley/gateway/feed"
	"parley/gateway/gatewaytest"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// withChats serves the feed of chats that a store keeps.
func withChats(store *gatewaytest.Chats) setup {
	return func(_ *gateway.Config, d *gateway.Deps) {
		// Nothing closes it: the test that no goroutine is left is also one that pollers end.
		d.Feeds = feed.New(store, feed.Polling{Poll: 10 * time.Millisecond}, metrics.NewFeeds(prometheus.NewRegistry()), nil)
	}
}

// happen has n answers sent to a chat. The text of each is the chat and its number in the feed.
func happen(t *testing.T, store *gatewaytest.Chats, tenant conversation.TenantID, chat chats.Chat, n int) {
	t.Helper()
	for range n {
		at, err := store.Feed(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		value := gatewaytest.ChatHappening(tenant, chat, fmt.Sprintf("%s %s %d", tenant, chat, at.Last+1))
		if err := store.Save(t.Context(), tenant, nil, []chats.Entry{{At: gatewaytest.Epoch, Session: "s1", Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
}

// happened reads an entry.
func happened(t *testing.T, text []byte) (number int, tenant, chat, said string) {
	t.Helper()
	var e struct {
		Number  int
		Project string
		Details struct{ Chat, Text string }
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e.Number, e.Project, e.Details.Chat, e.Details.Text
}

// A stream of chats resumes by Last-Event-ID or since; without either it is live only. It says
// first where it begins. A-22. PROTOCOL.md, rule 8.23.
func TestStreamOfChats(t *testing.T) {
	store := gatewaytest.NewChats()
	r := start(t, withChats(store))
	happen(t, store, "default", "telegram:42", 20)
	if err := store.Trim(t.Context(), "default", 5); err != nil {
		t.Fatal(err)
	}
	last := 20
	for _, x := range []struct {
		path   string
		header []string
		hello  string // without the head
		first  int
	}{
		{"?since=5", nil, `"first":6,"resumed":true`, 6},
		{"?since=18", nil, `"first":19,"resumed":true`, 19},
		{"", []string{"Last-Event-ID", "19"}, `"first":20,"resumed":true`, 20},
		{"?since=3", []string{"Last-Event-ID", "19"}, `"first":20,"resumed":true`, 20},
		{"?since=4", nil, `"first":6,"resumed":false,"reason":"trimmed"`, 6},
		{"?since=999", nil, `"first":%d,"resumed":false,"reason":"ahead"`, 0},
		{"", nil, `"first":%d,"resumed":false`, 0},
	} {
		next, cancel := r.wholeStreamOf("/api/chats/stream"+x.path, x.header...)
		e, _ := next()
		first := x.first
		if first == 0 { // from now on
			first, x.hello = last+1, fmt.Sprintf(x.hello, last+1)
		}
		if want := fmt.Sprintf(`{"type":"hello","data":{"head":%d,%s}}`, last, x.hello); e.event != "hello" || e.id != "" || e.data != want {
			t.Errorf("%s %v: %+v\nwant %s", x.path, x.header, e, want)
		}
		happen(t, store, "default", "telegram:43", 1)
		last++
		for n := first; n <= last; n++ {
			e, _ := next()
			if number, _, _, text := happened(t, []byte(e.data)); e.id != strconv.Itoa(n) || number != n || e.event != "chat.response" || !strings.HasSuffix(text, " "+e.id) {
				t.Fatalf("%s %v: want %d: %+v", x.path, x.header, n, e)
			}
		}
		cancel()
	}
	waitFor(t, func() bool { return r.metric("parley_gateway_streams") == 0 })
	r.call("GET", "/api/chats/stream?since=x", "").problem(t, 400, "bad_request")
	r.call("GET", "/api/chats/stream", "", "Last-Event-ID", "-1").problem(t, 400, "bad_request")
}

// A stream of chats is one of limits.streams, is commented when silent, lives through an outage
// of the store, and ends with the server or its credential.
func TestStreamOfChatsEnds(t *testing.T) {
	store := gatewaytest.NewChats()
	a := &passes{}
	a.put("mine", 0, gateway.ScopeChats)
	a.put("other", 0, gateway.ScopeChats)
	r := start(t, withAuth(a), withChats(store), times(func(x *gateway.Times) { x.Comment = 10 * time.Millisecond }), limits(func(l *gateway.Limits) { l.Streams = 2 }))
	mine, _ := r.streamOf("/api/chats/stream", "Authorization", "Bearer mine")
	ticket := r.call("POST", "/api/tickets", "", "Authorization", "Bearer other").want(t, http.StatusCreated).get(t, "ticket")
	other, _ := r.streamOf("/api/chats/stream?ticket=" + ticket)
	r.call("GET", "/api/chats/stream", "", "Authorization", "Bearer other").problem(t, 503, "overloaded")
	for _, next := range []func() (sse, bool){mine, other} {
		if e, _ := next(); e.comment == "" {
			t.Errorf("%+v", e)
		}
	}
	store.Fail(errors.New("the database is away"))
	if e, _ := other(); e.comment == "" {
		t.Errorf("%+v", e)
	}
	store.Fail(nil)
	happen(t, store, "default", "telegram:42", 1)
	if e := skipComments(other); e.id != "1" {
		t.Errorf("%+v", e)
	}
	a.revoke("mine")
	for e := skipComments(mine); e.event != "goaway" || !strings.Contains(e.data, "4501"); e = skipComments(mine) {
		if e.id != "1" {
			t.Fatalf("%+v", e)
		}
	}
	if e, more := mine(); more {
		t.Errorf("behind the end %+v", e)
	}
	go func() { _ = r.stop() }()
	if e := skipComments(other); e.event != "goaway" {
		t.Errorf("%+v", e)
	}
	for more := true; more; _, more = other() {
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// A stream of chats whose client takes nothing is cut off.
func TestBlockedStreamOfChats(t *testing.T) {
	store := gatewaytest.NewChats()
	r := start(t, withChats(store), times(func(x *gateway.Times) { x.Write = 50 * time.Millisecond }))
	conn, _ := r.raw(t, "GET /api/chats/stream?since=0 HTTP/1.1\r\nHost: "+r.addr+"\r\n\r\n")
	defer conn.Close()
	waitFor(t, func() bool { return r.metric("parley_gateway_streams") == 1 })
	value := gatewaytest.ChatHappening("default", "telegram:42", strings.Repeat("x", 60_000))
	for range 500 {
		if err := store.Save(t.Context(), "default", nil, []chats.Entry{{Value: value}}); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { return r.metric("parley_gateway_streams") == 0 })
}

// The feed as pages.
// PROTOCOL.md, rule 8.23.
func TestListChats(t *testing.T) {
	store := gatewaytest.NewChats()
	r := start(t, withChats(store))
	happen(t, store, "default", "telegram:42", 25)
	happen(t, store, "other", "telegram:42", 5)
	var got []int
	for path := "/api/chats?limit=10"; path != ""; {
		var page struct {
			Items []json.RawMessage
			Next  *string `json:"next_cursor"`
		}
		if err := json.Unmarshal(r.call("GET", path, "").want(t, 200).body, &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			n, tenant, _, _ := happened(t, item)
			got = append(got, n)
			if tenant != "default" {
				t.Errorf("%s", item)
			}
		}
		path = ""
		if page.Next != nil {
			path = "/api/chats?limit=10&cursor=" + *page.Next
		}
	}
	want := make([]int, 25)
	for i := range want {
		want[i] = i + 1
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if b := r.call("GET", "/api/chats?since=25", "").want(t, 200).body; string(b) != `{"items":[],"next_cursor":null}` {
		t.Errorf("%s", b)
	}
	r.call("GET", "/api/chats?since=x", "").problem(t, 400, "bad_request")
	r.call("GET", "/api/chats?cursor=x", "").problem(t, 400, "bad_request")
}

// Where there are no chats, there is no feed.
func TestNoChats(t *testing.T) {
	r := start(t)
	r.call("GET", "/api/chats", "").problem(t, 404, "not_found")
	r.call("GET", "/api/chats/stream", "").problem(t, 404, "not_found")
	c := gatewaytest.Connect(t, r.addr)
	if f := c.Do("watch_chats", "", nil); codeOf(f) != "not_found" {
		t.Errorf("%s", f.Raw)
	}
	if f := c.Do("unwatch_chats", "", nil); f.Type != "ok" {
		t.Errorf("%s", f.Raw)
	}
}

// A connection watches chats behind a number or from now on; a second watch replaces the first;
// behind the answer to unwatch_chats nothing comes, and behind that to a refresh that takes the
// scope away.
// PROTOCOL.md, rules 2.15, 4.10.
func TestWatchChats(t *testing.T) {
	store := gatewaytest.NewChats()
	a := &passes{}
	a.put("mine", 0, gateway.ScopeChats)
	a.put("less", 0, gateway.ScopeChat)
	r := start(t, withAuth(a), withChats(store))
	c := r.greet("mine")
	happen(t, store, "default", "telegram:42", 100)
	expect := func(first, last int) {
		t.Helper()
		for n := first; n <= last; n++ {
			f := c.Read()
			if number, _, _, _ := happened(t, f.Data); f.Type != "chat" || number != n {
				t.Fatalf("want %d: %s", n, f.Raw)
			}
		}
	}
	watch := func(data any, want string) {
		t.Helper()
		if f := c.Do("watch_chats", "", data); string(f.Data) != want {
			t.Fatalf("%s, want %s", f.Raw, want)
		}
	}
	watch(nil, `{"head":100,"first":101,"resumed":false}`)
	happen(t, store, "default", "telegram:42", 1)
	expect(101, 101)
	watch(obj{"since": 10}, `{"head":101,"first":11,"resumed":true}`) // the first one is silent from here on
	happen(t, store, "default", "telegram:42", 1)
	expect(11, 102)
	watch(obj{"since": 500}, `{"head":102,"first":103,"resumed":false,"reason":"ahead"}`)
	store.Fail(errors.New("the database is away"))
	if f := c.Do("watch_chats", "", nil); codeOf(f) != "internal" {
		t.Errorf("%s", f.Raw)
	}
	store.Fail(nil)
	watch(obj{"since": 102}, `{"head":102,"first":103,"resumed":true}`)
	happen(t, store, "default", "telegram:42", 1)
	expect(103, 103)
	for range 2 {
		if f := c.Do("unwatch_chats", "", nil); string(f.Data) != `{}` {
			t.Fatalf("%s", f.Raw)
		}
	}
	happen(t, store, "default", "telegram:42", 1)
	watch(obj{"since": 103}, `{"head":104,"first":104,"resumed":true}`)
	expect(104, 104)
	for _, bad := range []any{obj{"since": "x"}, obj{"since": -1}, "x"} {
		if f := c.Do("watch_chats", "", bad); codeOf(f) != "bad_request" {
			t.Errorf("%v: %s", bad, f.Raw)
		}
	}
	if f := c.Do("refresh", "", obj{"token": "less"}); f.Type != "ok" {
		t.Fatalf("%s", f.Raw)
	}
	happen(t, store, "default", "telegram:42", 1)
	if f := c.Read(); f.Type != "chats_gone" || f.Get("reason") != "forbidden" {
		t.Errorf("%s", f.Raw)
	}
	if f := c.Do("watch_chats", "", nil); codeOf(f) != "forbidden" {
		t.Errorf("%s", f.Raw)
	}
	if f := c.Do("ping", "", nil); f.Type != "ok" {
		t.Errorf("%s", f.Raw)
	}
	if err := c.WS.CloseNow(); err != nil {
		t.Error(err)
	}
}

// Commands of one client that come faster than the store answers end in the last one.
func TestWatchChatsAtOnce(t *testing.T) {
	store := gatewaytest.NewChats()
	r := start(t, withChats(store))
	c := gatewaytest.Connect(t, r.addr)
	happen(t, store, "default", "telegram:42", 3)
	var last string
	for i := range 60 {
		if i%3 == 2 {
			c.Send("unwatch_chats", "", nil)
		} else {
			c.Send("watch_chats", "", obj{"since": 3})
		}
	}
	last = c.Send("watch_chats", "", obj{"since": 2})
	c.Until(func(f gatewaytest.Frame) bool { return f.Re != nil && *f.Re == last })
	if f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "chat" }); f.Get("number") != "3" {
		t.Errorf("%s", f.Raw)
	}
	happen(t, store, "default", "telegram:42", 1)
	if f := c.Until(func(f gatewaytest.Frame) bool { return f.Type == "chat" }); f.Get("number") != "4" {
		t.Errorf("%s", f.Raw)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // five polls
	defer cancel()
	if _, b, err := c.WS.Read(ctx); err == nil && strings.Contains(string(b), `"chat"`) {
		t.Errorf("once more: %s", b)
	}
}

// watchers are users with the scope of chats, by their tenants.
type watchers struct{ gateway.NoAuth }

func (watchers) Mode() string { return "keys" }

func (watchers) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	if c.Token == "" {
		return nil, conversation.Errorf(conversation.Unauthenticated, "who is that")
	}
	return &gateway.Principal{Tenant: conversation.TenantID(c.Token), User: "ann", Scopes: []string{gateway.ScopeChats}, Credential: c.Token}, nil
}

// Two tenants and three chats, of which two have the same name: nothing of one tenant reaches
// the streams, sockets and pages of the other. A-38.
func TestChatsOfTenantsStayApart(t *testing.T) {
	store := gatewaytest.NewChats()
	r := start(t, withAuth(watchers{}), withChats(store))
	const each = 30
	type reader struct {
		name, tenant string
		next         func() []byte
	}
	var readers []reader
	for _, tenant := range []string{"acme", "beta"} {
		stream, _ := r.streamOf("/api/chats/stream?since=0", "Authorization", "Bearer "+tenant)
		c := r.greet(tenant)
		c.Do("watch_chats", "", obj{"since": 0})
		readers = append(readers,
			reader{"stream", tenant, func() []byte { e, _ := stream(); return []byte(e.data) }},
			reader{"socket", tenant, func() []byte { return c.Read().Data }})
	}
	for range each {
		happen(t, store, "acme", "telegram:42", 1)
		happen(t, store, "beta", "telegram:42", 1)
		happen(t, store, "acme", "discord:7", 1)
	}
	happen(t, store, "beta", "telegram:42", each) // so that both have as many
	for _, x := range readers {
		for n := 1; n <= 2*each; n++ {
			text := x.next()
			number, tenant, chat, said := happened(t, text)
			if number != n || tenant != x.tenant || said != fmt.Sprintf("%s %s %d", x.tenant, chat, n) || tenant == "beta" && chat != "telegram:42" {
				t.Fatalf("the %s of %s was shown %s", x.name, x.tenant, text)
			}
		}
	}
	for _, tenant := range []string{"acme", "beta"} {
		body := string(r.call("GET", "/api/chats?limit=200", "", "Authorization", "Bearer "+tenant).want(t, 200).body)
		if n := strings.Count(body, `"project":"`+tenant+`"`); n != 2*each || strings.Count(body, `"project":"`) != n {
			t.Errorf("the pages of %s have %d of it: %s", tenant, n, body)
		}
	}
}

package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/push"
	"parley/gateway/service"
	"parley/gateway/waystest"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// post is an address of a client, and what brings notices there.
type post struct {
	*httptest.Server
	t      *testing.T
	pushes *push.Pushes
	store  *gatewaytest.Chats
	saved  chan struct{} // something was stored, or tried to
	ahead  atomic.Int64  // so far the clock of what brings notices is ahead, in nanoseconds

	mu     sync.Mutex
	posts  []string // each as an event of a stream
	ids    map[string]bool
	twice  int
	holds  string      // a notice with that in it is taken and not answered, once
	held   chan string // its webhook-id
	header http.Header // of the last one
	more   chan struct{}
}

// pushing is a server that sends to this machine, and a client's address there. Nothing is sent
// before run is called.
func pushing(t *testing.T, binding string, changes ...setup) (*rig, *post) {
	t.Helper()
	p := &post{t: t, ids: map[string]bool{}, more: make(chan struct{}, 1000), saved: make(chan struct{}, 1000), store: gatewaytest.NewChats()}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	rules := push.DefaultRules()
	rules.PerUser = 3
	now := func() time.Time { return time.Now().Add(time.Duration(p.ahead.Load())) }
	p.pushes = push.New(rules, true, push.Parts{Now: now, Store: telling{p.store, p.saved}, Cursors: service.NewCursors(nil), Metrics: metrics.NewPushes(prometheus.NewRegistry())})
	return start(t, binding, append(changes, func(_ *gateway.Config, d *gateway.Deps) { d.Pushes = p.pushes })...), p
}

// telling says of each save that it was made.
type telling struct {
	*gatewaytest.Chats
	saved chan struct{}
}

// Save implements chats.Store.
func (t telling) Save(ctx context.Context, tenant conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	defer func() { t.saved <- struct{}{} }()
	return t.Chats.Save(ctx, tenant, rows, entries)
}

// ServeHTTP takes a notice.
func (p *post) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := r.Header.Get("webhook-id")
	if err != nil || r.Header.Get("Content-Type") != "application/a2a+json" || r.URL.Path != "/hook" {
		p.t.Errorf("%s %v: %v", r.URL, r.Header, err)
	}
	p.header = r.Header
	if p.holds != "" && strings.Contains(string(body), p.holds) {
		p.holds = ""
		defer func() {
			p.held <- id
			<-r.Context().Done()
		}()
	}
	if p.ids[id] {
		p.twice++
	} else {
		p.posts = append(p.posts, "id: "+id[strings.LastIndexByte(id, ':')+1:]+"\ndata: "+string(body)+"\n\n")
	}
	p.ids[id] = true
	p.more <- struct{}{}
}

// told is what was brought, as a stream.
func (p *post) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.posts, "")
}

// until waits for a notice with a text in it.
func (p *post) until(text string) string {
	p.t.Helper()
	for deadline := time.After(waystest.Patience); !strings.Contains(p.told(), text); {
		select {
		case <-p.more:
		case <-deadline:
			p.t.Fatalf("no %s in\n%s", text, p.told())
		}
	}
	return p.told()
}

// run brings notices until stop is called.
func (p *post) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.pushes.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Error(err)
		}
	})
	p.t.Cleanup(stop)
	return stop
}

// hold takes the next notice with a text in it, and does not answer.
func (p *post) hold(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds, p.held = text, make(chan string, 1)
}

func (p *post) hook() string { return p.URL + "/hook" }

// with are the parameters of a message whose client wants to be told of its task.
func (p *post) with(params string, more string) string {
	return strings.TrimSuffix(params, "}") + `,"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"` + p.hook() + `"` + more + `}}}`
}

// configure asks for something of configurations: "Create", "Get", "List", "Delete".
func (r *rig) configure(do, task, id, body string, headers ...string) *answer {
	r.t.Helper()
	if r.binding == rpc {
		var params map[string]any
		if err := json.Unmarshal([]byte(body), &params); err != nil {
			r.t.Fatal(err)
		}
		params["taskId"] = task
		if id != "" {
			params["id"] = id
		}
		b, err := json.Marshal(params)
		if err != nil {
			r.t.Fatal(err)
		}
		name := do + "TaskPushNotificationConfig"
		if do == "List" {
			name += "s"
		}
		return r.call("POST", "/a2a", `{"jsonrpc":"2.0","id":7,"method":"`+name+`","params":`+string(b)+`}`, headers...)
	}
	at := "/a2a/tasks/" + task + "/pushNotificationConfigs"
	switch do {
	case "Create":
		return r.call("POST", at, body, headers...)
	case "List":
		return r.call("GET", at, "", headers...)
	case "Get":
		return r.call("GET", at+"/"+id, "", headers...)
	default:
		return r.call("DELETE", at+"/"+id, "", headers...)
	}
}

// play has all kinds of things happen in a task, to its end.
func (r *rig) play(w *wire) {
	r.t.Helper()
	r.show(w, w.delta("1.1.0", 0, "Let me "))
	r.model(w, text("Let me see."), call("clock", `{}`))
	r.sessions.Play(func(m *machinetest.World) { m.Session(gatewaytest.Key(w.ContextID)).Return("c1", "12:30", time.Second) })
	r.show(w, w.delta("2.1.0", 0, "It"))
	r.show(w, conversation.DraftDropped{Task: conversation.TaskID(w.ID), Draft: "2.1.0"})
	r.model(w, call(conversation.ToolAsk, `{"question":"Sure?","blocking":false}`))
	r.request("SendMessage", atOnce("u2", "yes", `,"taskId":"`+w.ID+`","metadata":{"parley":{"question":"q1"}}`)).task()
	r.show(w, w.delta("3.1.0", 0, "It is 12:"))
	r.model(w, text("It is 12:30"))
	r.model(w, call(conversation.ToolRespond, `{"message":"And that is all","inReplyTo":1}`))
	r.model(w)
}

// N-16: what happens to a task is brought to its client's address: the task first, then each state,
// and each text when it has ended. What was brought is what a stream tells.
func TestPush(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r, p := pushing(t, binding)
		p.run()
		w := r.request("SendMessage", p.with(says("u1", "Hello", ""), `,"token":"tok","authentication":{"scheme":"Bearer","credentials":"cred"}`)).task()
		first := p.until("TASK_STATE_WORKING")
		if !strings.HasPrefix(first, "id: ") || !strings.Contains(first, `"task":{`) || !strings.Contains(first, `"messageId":"u1"`) {
			t.Errorf("it begins with %s", first)
		}
		r.play(w)
		told := p.until("TASK_STATE_COMPLETED")
		streamed := r.follows("SendStreamingMessage", says("u1", "Hello", "")).all()
		if got, want := has(t, told), has(t, streamed); got != want {
			t.Errorf("brought was\n%s\nand a stream tells\n%s", got, want)
		}
		if n := strings.Count(told, "Let me"); n != 1 {
			t.Errorf("a text was brought %d times:\n%s", n, told)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.header.Get("Authorization") != "Bearer cred" || p.header.Get(push.TokenHeader) != "tok" || p.twice != 0 {
			t.Errorf("%d twice, %v", p.twice, p.header)
		}
	})
}

// Whenever the node that brings notices ends, another one goes on without a gap.
func TestPushGoesOn(t *testing.T) {
	r, p := pushing(t, rpc)
	w := r.request("SendMessage", p.with(says("u1", "Hello", ""), "")).task()
	r.play(w)
	restarts := 0
	for stop := p.run(); !strings.Contains(p.told(), "TASK_STATE_COMPLETED"); stop = p.run() {
		<-p.more
		stop()
		restarts++
	}
	if got, want := has(t, p.told()), has(t, r.follows("SendStreamingMessage", says("u1", "Hello", "")).all()); got != want || restarts < 5 {
		t.Errorf("after %d restarts brought was\n%s\nand a stream tells\n%s", restarts, got, want)
	}
}

// What comes again has the id that it had, also when it has happened beside a text that streamed:
// where it is told again, nobody knows any more how far that was.
func TestPushAgainBesideAText(t *testing.T) {
	r, p := pushing(t, rpc)
	stop := p.run()
	w := r.request("SendMessage", p.with(says("u1", "Hello", ""), "")).task()
	r.model(w, call(conversation.ToolAsk, `{"question":"Sure?","blocking":false}`))
	p.until("Sure?")
	r.show(w, w.delta("2.1.0", 0, "It is"))
	p.hold(`"receipt":`)
	r.request("SendMessage", atOnce("u2", "yes", `,"taskId":"`+w.ID+`","metadata":{"parley":{"question":"q1"}}`)).task()
	id := <-p.held
	stop()
	p.run()
	r.model(w, text("It is 12:30"))
	told := p.until("It is 12:30")
	if p.mu.Lock(); p.twice != 1 || strings.Count(told, `"messageId":"u2","message":`) != 1 {
		t.Errorf("%s came again as another one:\n%s", id, told)
	}
	p.mu.Unlock()
}

// A configuration may be made while the task works, and when it has ended: the task as it is then
// comes first.
func TestPushLater(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r, p := pushing(t, binding)
		p.run()
		w := r.request("SendMessage", atOnce("u1", "Hello", "")).task()
		r.model(w, text("Let me see."), call("clock", `{}`))
		r.configure("Create", w.ID, "later", `{"url":"`+p.hook()+`"}`).want(200)
		first := p.until(`"task":{`)
		if !strings.Contains(first, "Let me see.") || !strings.Contains(first, "TASK_STATE_WORKING") {
			t.Errorf("it begins with %s", first)
		}
		r.sessions.Play(func(m *machinetest.World) { m.Session(gatewaytest.Key(w.ContextID)).Return("c1", "12:30", time.Second) })
		r.model(w, text("It is 12:30"))
		told := p.until("TASK_STATE_COMPLETED")
		if got, want := has(t, told), has(t, r.follows("SendStreamingMessage", says("u1", "Hello", "")).all()); got != want {
			t.Errorf("brought was\n%s\nand a stream tells\n%s", got, want)
		}
		r.configure("Create", w.ID, "late", `{"url":"`+p.hook()+`?late"}`).want(200)
		if last := strings.TrimPrefix(p.until(`TASK_STATE_COMPLETED","timestamp`), told); strings.Count(last, "id: ") > 1 {
			t.Errorf("of a task that has ended: %s", last)
		}
	})
}

// The configurations of a task are those of who has made them, for who may see the task. Their
// secrets are not shown.
func TestPushConfigurations(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r, p := pushing(t, binding, withKeys)
		ann, bob, eve, ops := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer bob"}, []string{"Authorization", "Bearer eve"}, []string{"Authorization", "Bearer ops"}
		w := r.request("SendMessage", p.with(says("u1", "Hello", ""), `,"id":"first"`), ann...).task()
		full := `{"url":"` + p.hook() + `","token":"a-token","authentication":{"scheme":"Bearer","credentials":"a-secret"},"more":1}`
		type config struct {
			ID, TaskID, URL string
			Authentication  *struct{ Scheme string }
		}
		var made, same, got config
		r.configure("Create", w.ID, "", full, ann...).result(&made)
		r.configure("Create", w.ID, "", full, ann...).result(&same)
		if made.ID == "" || same.ID != made.ID || made.TaskID != w.ID || made.URL != p.hook() || made.Authentication == nil || made.Authentication.Scheme != "Bearer" {
			t.Errorf("made: %+v, then %+v", made, same)
		}
		text := r.configure("Get", w.ID, made.ID, `{}`, ann...).want(200).all()
		if strings.Contains(text, "a-token") || strings.Contains(text, "a-secret") {
			t.Errorf("secrets are shown: %s", text)
		}
		r.configure("Get", w.ID, "first", `{}`, ann...).result(&got)
		var list struct {
			Configs       []config
			NextPageToken *string
		}
		r.configure("List", w.ID, "", `{}`, ann...).result(&list)
		if got.ID != "first" || got.URL != p.hook() || len(list.Configs) != 2 || list.Configs[0].ID != "first" || list.Configs[1].ID != made.ID || list.NextPageToken == nil {
			t.Errorf("got: %+v; the list: %+v", got, list)
		}
		for name, a := range map[string]*answer{
			"another tenant gets":    r.configure("Get", w.ID, "first", `{}`, eve...),
			"another tenant lists":   r.configure("List", w.ID, "", `{}`, eve...),
			"another tenant makes":   r.configure("Create", w.ID, "x", full, eve...),
			"another tenant deletes": r.configure("Delete", w.ID, "first", `{}`, eve...),
			"another user makes":     r.configure("Create", w.ID, "x", full, bob...),
			"no such task":           r.configure("List", "t1-nothing", "", `{}`, ann...),
			"no such id":             r.configure("Get", w.ID, "nothing", `{}`, ann...),
		} {
			if reason, text := a.refused(); reason != "TASK_NOT_FOUND" {
				t.Errorf("%s: %s", name, text)
			}
		}
		if a := r.configure("List", w.ID, "", `{}`, ops...); a.StatusCode != 403 {
			t.Errorf("without the scope chat: %d", a.StatusCode)
		}
		for range 2 {
			if got := r.configure("Delete", w.ID, "first", `{}`, ann...).want(200).all(); strings.Contains(got, "error") {
				t.Error(got)
			}
		}
		list.Configs = nil
		r.configure("List", w.ID, "", `{}`, ann...).result(&list)
		if len(list.Configs) != 1 || list.Configs[0].ID != made.ID {
			t.Errorf("after the delete: %+v", list)
		}
		for name, body := range map[string]string{
			"no url": `{}`, "another machine": `{"url":"https://agents.example.org/"}`, "a private network": `{"url":"http://10.1.2.3/"}`,
			"a password": `{"url":"http://ann:secret@127.0.0.1/"}`, "an id that cannot be": `{"id":"a b","url":"` + p.hook() + `"}`, "a token that cannot be": `{"token":"a\nb","url":"` + p.hook() + `"}`,
		} {
			reason, text := r.configure("Create", w.ID, "", body, ann...).refused()
			if reason != "INVALID_PARAMS" || strings.Contains(text, "secret") {
				t.Errorf("%s: %s", name, text)
			}
		}
	})
}

// A message whose configuration is refused is not said.
func TestPushRefusesBeforeTheMessage(t *testing.T) {
	both(t, func(t *testing.T, binding string) {
		r, p := pushing(t, binding, withKeys)
		ann := []string{"Authorization", "Bearer ann"}
		for i := range 3 {
			r.request("SendMessage", p.with(says(fmt.Sprint("u", i), "Hello", ""), ""), ann...).task()
		}
		w := r.request("SendMessage", atOnce("u9", "Hello", ""), ann...).task()
		for name, c := range map[string]struct{ params, reason string }{
			"one too many":      {p.with(says("x", "x", ""), ""), "RATE_LIMITED"},
			"a stranger's host": {strings.Replace(p.with(says("x", "x", ""), ""), p.URL, "https://agents.example.org", 1), "INVALID_PARAMS"},
			"another task":      {p.with(says("x", "x", `,"taskId":"`+w.ID+`"`), `,"taskId":"t9-other"`), "INVALID_PARAMS"},
		} {
			if reason, text := r.request("SendMessage", c.params, ann...).refused(); reason != c.reason {
				t.Errorf("%s: %s", name, text)
			}
		}
		if reason, text := r.configure("Create", w.ID, "", `{"url":"`+p.hook()+`"}`, ann...).refused(); reason != "RATE_LIMITED" {
			t.Errorf("one too many of a task that is there: %s", text)
		}
		if got := r.request("GetTask", `{"id":"`+w.ID+`"}`, ann...).task(); len(got.History) != 1 {
			t.Errorf("what was refused was said: %+v", got.History)
		}
		var list struct{ TotalSize int }
		r.request("ListTasks", `{}`, ann...).result(&list)
		if list.TotalSize != 4 {
			t.Errorf("%d tasks", list.TotalSize)
		}
		r.request("SendMessage", p.with(says("u0", "Hello", ""), ""), ann...).task() // it is told of already
	})
}

// revocable are keys that can be taken back.
type revocable struct {
	waystest.Keyring
	mu      sync.Mutex
	taken   bool
	watches []func()
}

// Watch implements service.Watcher.
func (k *revocable) Watch(_ *service.Principal, ended func()) func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.taken {
		return nil
	}
	k.watches = append(k.watches, ended)
	return func() {}
}

func (k *revocable) take() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken = true
	for _, ended := range k.watches {
		go ended()
	}
}

// Nothing is brought any more when the session was erased, the user is no member any more, or the
// key by which it was asked for was taken back.
func TestPushEndsWithTheRight(t *testing.T) {
	for name, does := range map[string]func(r *rig, p *post, k *revocable, w *wire){
		"erased": func(r *rig, p *post, _ *revocable, w *wire) {
			r.call("DELETE", "/api/sessions/"+w.ContextID, "", "Authorization", "Bearer ann").want(204)
			p.store.Erase(gatewaytest.Key(w.ContextID)) // as the engine's own store does in the same step
		},
		"taken back": func(_ *rig, _ *post, k *revocable, _ *wire) { k.take() },
		"taken back while nothing ran": func(_ *rig, p *post, k *revocable, _ *wire) {
			p.pushes.Answer(nil)
			k.take()
			p.ahead.Store(int64(time.Hour)) // a key that was just made may not be known here yet
		},
	} {
		t.Run(name, func(t *testing.T) {
			keys := &revocable{Keyring: waystest.Keyring{"ann": {Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}, Credential: "key:1"}}}
			r, p := pushing(t, rpc, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = keys })
			stop := p.run()
			ann := []string{"Authorization", "Bearer ann"}
			w := r.request("SendMessage", p.with(says("u1", "Hello", ""), `,"id":"a"`), ann...).task()
			p.until("TASK_STATE_WORKING")
			if strings.Contains(name, "nothing ran") {
				stop()
			}
			does(r, p, keys, w)
			p.run()
			has := func() string { // why each has ended
				why := ""
				for row, err := range p.store.Rows(t.Context(), "default", push.Channel) {
					if err != nil {
						t.Fatal(err)
					}
					var r struct{ Why string }
					if err := json.Unmarshal(row.Value, &r); err != nil {
						t.Fatal(err)
					}
					why += "ended: " + r.Why
				}
				return why
			}
			want := map[bool]string{false: "ended: no_access"}[name == "erased"]
			for deadline := time.After(waystest.Patience); has() != want; {
				select {
				case <-p.saved:
				case <-deadline:
					t.Fatal("it goes on: " + has())
				}
			}
			if name == "erased" {
				return
			}
			before := p.told()
			r.model(w, text("It is 12:30"))
			if after := p.told(); after != before {
				t.Errorf("brought was %s", after)
			}
		})
	}
}

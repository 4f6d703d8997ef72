package push_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/gatewaytest"
	"parley/gateway/push"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// rig is a store, tasks of which things happen, and receivers.
type rig struct {
	t        *testing.T
	store    *gatewaytest.Chats
	registry *prometheus.Registry
	metrics  *metrics.Pushes
	log      bytes.Buffer // to be read when nothing runs
	logger   *slog.Logger
	rules    push.Rules
	secret   []byte

	mu      sync.Mutex
	answers map[string]func(n int) (*http.Response, error) // by host; nil = 200
	got     map[string][]received
	tasks   map[conversation.TaskID]*happening
}

// received is a request as a receiver has seen it.
type received struct {
	id, body string
	header   http.Header
	at       time.Time
}

// happening is what happens to a task.
type happening struct {
	notices []push.Notice
	ended   bool
	hidden  bool // nobody may see it any more
	crashes bool
	fails   bool          // once, behind each notice
	keyless bool          // the key by which it was registered is not known
	changed chan struct{} // closed with the next change
	open    int           // tales that are
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, store: gatewaytest.NewChats(), registry: prometheus.NewRegistry(), rules: push.DefaultRules(), secret: []byte("a secret of the store"),
		answers: map[string]func(int) (*http.Response, error){}, got: map[string][]received{}, tasks: map[conversation.TaskID]*happening{},
	}
	r.rules.Hosts = []string{"*.example"}
	r.logger = slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.metrics = metrics.NewPushes(r.registry)
	return r
}

// pushes are what a node has of them. Nothing runs yet.
func (r *rig) pushes() *push.Pushes {
	p := push.New(r.rules, false, push.Parts{
		Store: r.store, Cursors: service.NewCursors(r.secret), Metrics: r.metrics, Transport: r, Logger: r.logger,
	})
	p.Tells(r)
	return p
}

// run serves registrations until stop is called.
func (r *rig) run(p *push.Pushes) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	return func() {
		r.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("run: %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for id, h := range r.tasks {
			if h.open != 0 {
				r.t.Errorf("%d tales of %s are open", h.open, id)
			}
		}
	}
}

// RoundTrip implements http.RoundTripper: it is all receivers.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	host := req.URL.Host
	r.got[host] = append(r.got[host], received{req.Header.Get("webhook-id"), string(body), req.Header, time.Now()})
	n, answer := len(r.got[host]), r.answers[host]
	r.mu.Unlock()
	if answer == nil {
		return status(200), nil
	}
	return answer(n)
}

func status(code int, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("thanks"))}
}

// answer sets how a host answers its n-th request.
func (r *rig) answer(host string, with func(n int) (*http.Response, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[host] = with
}

// bodies are what a host was sent, and each once that came again at once.
func (r *rig) bodies(host string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, x := range r.got[host] {
		all = append(all, x.body)
	}
	return strings.Join(slices.Compact(all), " ")
}

func (r *rig) seen(host string) []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[host])
}

func (r *rig) task(id conversation.TaskID) *happening {
	h := r.tasks[id]
	if h == nil {
		h = &happening{changed: make(chan struct{})}
		r.tasks[id] = h
	}
	return h
}

// change changes a task.
func (r *rig) change(id conversation.TaskID, how func(h *happening)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.task(id)
	how(h)
	close(h.changed)
	h.changed = make(chan struct{})
}

// happens has things happen to a task. "end" is the last one.
func (r *rig) happens(id conversation.TaskID, what ...string) {
	r.change(id, func(h *happening) {
		for _, w := range what {
			h.notices = append(h.notices, push.Notice{Number: uint64(len(h.notices)+1) * 10, At: time.Now(), Type: "application/test", Body: []byte(w)})
			h.ended = w == "end"
		}
	})
}

// Notices implements push.TaskSource.
func (r *rig) Notices(ctx context.Context, reg *push.Registration, after uint64) (push.Tale, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.task(reg.Task)
	if h.hidden {
		return nil, push.ErrNoAccess
	}
	if h.keyless {
		return nil, push.ErrNoKey
	}
	h.open++
	return &tale{r: r, ctx: ctx, h: h, after: after}, nil
}

// tale is what a task is told by.
type tale struct {
	r     *rig
	ctx   context.Context
	h     *happening
	after uint64
	told  bool
}

func (t *tale) Next() (push.Notice, error) {
	for {
		t.r.mu.Lock()
		h, changed := t.h, t.h.changed
		i := slices.IndexFunc(h.notices, func(n push.Notice) bool { return n.Number > t.after })
		switch {
		case h.crashes:
			t.r.mu.Unlock()
			panic("the source crashes")
		case h.hidden:
			t.r.mu.Unlock()
			return push.Notice{}, push.ErrNoAccess
		case h.fails && t.told:
			t.r.mu.Unlock()
			return push.Notice{}, errors.New("the log cannot be read")
		case i >= 0:
			n := h.notices[i]
			t.after, t.told = n.Number, true
			t.r.mu.Unlock()
			return n, nil
		case h.ended:
			t.r.mu.Unlock()
			return push.Notice{}, io.EOF
		}
		t.r.mu.Unlock()
		select {
		case <-changed:
		case <-t.ctx.Done():
			return push.Notice{}, t.ctx.Err()
		}
	}
}

func (t *tale) Check() error {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.h.hidden {
		return push.ErrNoAccess
	}
	return nil
}

func (t *tale) Close() {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.h.open--
}

// wants is ann's registration of a task, to https://NAME.example/token.
func wants(task conversation.TaskID, name string, change ...func(*push.Registration)) *push.Registration {
	_, session, _ := strings.Cut(string(task), "-")
	reg := &push.Registration{
		User:    service.Principal{Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}, Credential: "key:1"},
		Session: conversation.SessionID(session), Task: task, ID: name, Target: push.Target{URL: "https://" + name + ".example/token"}, From: 7, Context: "mine", Address: "https://here.example",
	}
	for _, f := range change {
		f(reg)
	}
	return reg
}

func by(tenant conversation.TenantID, user conversation.UserID) func(*push.Registration) {
	return func(reg *push.Registration) { reg.User.Tenant, reg.User.User = tenant, user }
}

// put stores registrations.
func (r *rig) put(p *push.Pushes, all ...*push.Registration) {
	r.t.Helper()
	for _, reg := range all {
		if err := p.Put(r.t.Context(), reg); err != nil {
			r.t.Fatalf("%s of %s: %v", reg.ID, reg.Task, err)
		}
	}
}

// names are the ids of a user's registrations of a task.
func (r *rig) names(p *push.Pushes, of *push.Registration) string {
	r.t.Helper()
	all, err := p.List(r.t.Context(), &of.User, of.Task)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, reg := range all {
		names = append(names, reg.ID)
	}
	return strings.Join(names, " ")
}

// counted are the series of the metrics that are not 0, but for times.
func (r *rig) counted() string {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, m := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "parley_push_")
			for _, l := range m.Label {
				name += ":" + l.GetValue()
			}
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); v != 0 {
				all = append(all, fmt.Sprintf("%s=%v", name, v))
			}
		}
	}
	return strings.Join(all, " ")
}

func code(err error) conversation.Code {
	var e *conversation.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// rows are how many rows the store has of registrations.
func (r *rig) rows(tenant conversation.TenantID) (n int) {
	r.t.Helper()
	for _, err := range r.store.Rows(r.t.Context(), tenant, push.Channel) {
		if err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

var _ chats.Store = (*gatewaytest.Chats)(nil)

package actors

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/member"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/metrics/tracing"
	"parley/persistence/persistencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	researcher conversation.AgentName = "researcher"
	ada        conversation.UserID    = "ada"
)

var mainKey = conversation.SessionKey{Tenant: "acme", Session: "aaaaaaaaaaaaaaaa"}

// harness is an engine with everything around it. It lives inside a synctest
// bubble: time stands still until nothing can go on without it.
type harness struct {
	quota   func(conversation.TenantID) error // nil = none
	place   placement.Map                     // nil = every session is here
	feature func() member.Feature             // nil = this program's
	handed  func(conversation.SessionKey)     // is told what was handed over; nil = nobody
	holds   func() bool                       // nil = always
	t       *testing.T
	cfg     Config
	store   *persistencetest.Memory
	through conversation.Store // what the engine is given; nil = store
	log     slog.Handler
	metrics *prometheus.Registry
	pub     *actorstest.Publisher
	publish conversation.Publisher // what the engine is given; nil = pub
	model   *actorstest.Model
	models  map[string]conversation.Model // nil = model, for every agent
	tools   map[string]conversation.Tool
	journal *actorstest.Journal
	traced  func() *tracing.Tracer // opens one for each start; nil = no traces
	tracer  *tracing.Tracer
	e       *Engine
	m       *metrics.Actors
	cancel  context.CancelFunc
	ran     chan error
}

// withHarness runs f in a bubble with an engine that runs, and ends it.
func withHarness(t *testing.T, change func(*harness), f func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &harness{t: t, cfg: testConfig(), store: persistencetest.NewMemory(), journal: &actorstest.Journal{}}
		h.pub = &actorstest.Publisher{Journal: h.journal, Log: h.logged}
		h.model = &actorstest.Model{Name: "fake", Journal: h.journal}
		if change != nil {
			change(h)
		}
		h.start()
		defer h.stop() // also after a failure: the scans would keep the bubble alive
		f(t, h)
	})
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Node = "n1"
	cfg.IdleJitter = 0
	cfg.Rules = policy.Rules{
		Policy: policy.DefaultPolicy(),
		Agents: map[conversation.AgentName]policy.Profile{
			conversation.Coordinator: {Name: conversation.Coordinator, Tools: []string{"*"}, MayAsk: true, Delegates: true, EngineTools: true},
			researcher:               {Name: researcher, Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true, EngineTools: true},
			conversation.External:    {Name: conversation.External},
		},
		Tools: map[string]policy.ToolRule{},
	}
	return cfg
}

func (h *harness) start() {
	h.t.Helper()
	for name, tool := range h.tools {
		h.cfg.Rules.Tools[name] = policy.ToolRule{Spec: tool.Spec()}
	}
	h.metrics = prometheus.NewRegistry()
	h.m = metrics.NewActors(h.metrics)
	if h.log == nil {
		h.log = slog.DiscardHandler
	}
	if os.Getenv("PARLEY_TEST_LOG") != "" {
		h.log = slog.NewTextHandler(os.Stderr, nil)
	}
	if h.through == nil {
		h.through = h.store
	}
	if h.publish == nil {
		h.publish = h.pub
	}
	if h.models == nil {
		h.models = map[string]conversation.Model{"": h.model}
	}
	if h.traced != nil {
		h.tracer = h.traced()
	}
	e, err := New(h.cfg, Deps{
		Tracer: h.tracer,
		Store:  h.through, Publisher: h.publish, Models: maps.Clone(h.models), Tools: h.tools,
		Logger: slog.New(h.log), Metrics: h.m, Quota: h.quota, Placement: h.place, HandedOver: h.handed, Feature: h.feature, Holds: h.holds,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.t.Context())
	h.e, h.cancel, h.ran = e, cancel, make(chan error, 1)
	go func() { h.ran <- e.Run(ctx) }()
	synctest.Wait()
}

// stop ends the engine as a crash would, but without leaving anything behind.
func (h *harness) stop() {
	h.t.Helper()
	h.cancel()
	if err := <-h.ran; err != nil {
		h.t.Error(err)
	}
	if err := h.tracer.Close(context.Background()); err != nil {
		h.t.Error(err)
	}
	time.Sleep(time.Minute) // what waits for time to pass must come to its end too
	synctest.Wait()
	if n := h.e.registry.Count(); n != 0 {
		h.t.Errorf("%d sessions are in memory after the end", n)
	}
	if used, waiting := h.e.slots.Used(); used != 0 || waiting != 0 {
		h.t.Errorf("%d slots are in use and %d waited for after the end", used, waiting)
	}
}

// restart is a crash and a new process on the same store.
func (h *harness) restart() {
	h.t.Helper()
	h.stop()
	h.start()
}

// answer is what a command was answered.
type answer struct {
	mu      sync.Mutex
	times   int
	receipt conversation.Receipt
	err     error
}

func (a *answer) get() (times int, r conversation.Receipt, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.times, a.receipt, a.err
}

// tell tells and does not wait.
func (h *harness) tell(key conversation.SessionKey, c conversation.Command) *answer {
	a := &answer{}
	h.e.Tell(key, ada, c, func(r conversation.Receipt, err error) {
		h.journal.Add("answer " + c.Name())
		a.mu.Lock()
		defer a.mu.Unlock()
		a.times++
		a.receipt, a.err = r, err
	})
	return a
}

// ok waits until nothing moves, and wants the answer to be positive.
func (h *harness) ok(a *answer) conversation.Receipt {
	h.t.Helper()
	synctest.Wait()
	times, r, err := a.get()
	if times != 1 || err != nil {
		h.t.Fatalf("answered %d times, with %+v, %v", times, r, err)
	}
	return r
}

// refused waits until nothing moves, and wants the answer to be a refusal.
func (h *harness) refused(a *answer, code conversation.Code) *conversation.Error {
	h.t.Helper()
	synctest.Wait()
	times, r, err := a.get()
	if times != 1 || err == nil || conversation.AsError(err).Code != code {
		h.t.Fatalf("answered %d times, with %+v, %v; wanted %s", times, r, err, code)
	}
	return conversation.AsError(err)
}

// silent waits until nothing moves, and wants no answer yet.
func (h *harness) silent(a *answer) {
	h.t.Helper()
	synctest.Wait()
	if times, r, err := a.get(); times != 0 {
		h.t.Fatalf("answered %d times too early, with %+v, %v", times, r, err)
	}
}

func (h *harness) create(key conversation.SessionKey) {
	h.t.Helper()
	h.createAs(key, conversation.Create{Owner: ada})
}

func (h *harness) createAs(key conversation.SessionKey, c conversation.Create) {
	h.t.Helper()
	var created bool
	var failed error
	h.e.Create(key, c, func(_ conversation.SessionKey, ok bool, err error) { created, failed = ok, err })
	synctest.Wait()
	if !created || failed != nil {
		h.t.Fatalf("created %v, %v", created, failed)
	}
}

func say(id, text string) conversation.Say {
	return conversation.Say{Author: ada, Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(id), Text: text}
}

// call is the only open model call.
func (h *harness) call() *actorstest.ModelCall {
	h.t.Helper()
	synctest.Wait()
	open := h.model.Open()
	if len(open) != 1 {
		h.t.Fatalf("%d model calls are open", len(open))
	}
	return open[0]
}

// reply answers the only open model call.
func (h *harness) reply(items ...conversation.Item) {
	h.t.Helper()
	h.call().Answer(items...)
	synctest.Wait()
}

func (h *harness) view(key conversation.SessionKey) conversation.View {
	h.t.Helper()
	var v conversation.View
	err := fmt.Errorf("no answer")
	h.e.View(key, ada, func(view conversation.View, failed error) { v, err = view, failed })
	synctest.Wait()
	if err != nil {
		h.t.Fatalf("view of %s: %v", key, err)
	}
	return v
}

// stored is what the store has of a session.
func (h *harness) stored(key conversation.SessionKey) []conversation.Event {
	h.t.Helper()
	var events []conversation.Event
	for r, err := range h.store.Records(h.t.Context(), key, conversation.Range{}) {
		if err != nil {
			h.t.Fatal(err)
		}
		events = append(events, r.Events...)
	}
	return events
}

// logged is what the store has of a session behind a seq.
func (h *harness) logged(key conversation.SessionKey, after conversation.Seq) []conversation.Event {
	var events []conversation.Event
	for r := range h.store.Records(context.Background(), key, conversation.Range{After: after}) {
		events = append(events, r.Events...)
	}
	return slices.DeleteFunc(events, func(e conversation.Event) bool { return e.Seq <= after })
}

// forget takes a session out of memory.
func (h *harness) forget(key conversation.SessionKey) {
	h.e.registry.Deliver(key, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
	synctest.Wait()
}

// active is true while a session is in memory.
func (h *harness) active(key conversation.SessionKey) bool { return h.e.registry.Actor(key) != nil }

// children are the child actors of a session.
func (h *harness) children(key conversation.SessionKey) []*actor.PID {
	parent := h.e.registry.Actor(key)
	var pids []*actor.PID
	for _, bucket := range h.e.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range bucket.Keys() {
			if parent != nil && strings.HasPrefix(id, parent.Id+"/") {
				pids = append(pids, h.e.system.NewLocalPID(id))
			}
		}
	}
	return pids
}

// slots is how many slots are counted as used.
func (h *harness) slots() int {
	used, _ := h.e.slots.Used()
	return used
}

func kinds(events []conversation.Event) []string {
	var names []string
	for _, e := range events {
		names = append(names, e.Body.Kind().String())
	}
	return names
}

// count is how many events of a kind the store has.
func (h *harness) count(key conversation.SessionKey, kind conversation.EventKind) int {
	h.t.Helper()
	n := 0
	for _, e := range h.stored(key) {
		if e.Body.Kind() == kind {
			n++
		}
	}
	return n
}

// assertComplete wants everything stored to be published, once and in order.
func (h *harness) assertComplete(key conversation.SessionKey) {
	h.t.Helper()
	stored, published := kinds(h.stored(key)), kinds(h.pub.Events(key))
	if !slices.Equal(stored, published) {
		h.t.Errorf("stored    %v\npublished %v", stored, published)
	}
}

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
	"parley/conversation"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	researcher conversation.AgentName = "researcher"
	ada        conversation.UserID    = "ada"
)

var talk = conversation.SessionKey{Tenant: "acme", Session: "aaaaaaaaaaaaaaaa"}

// world is an engine with everything around it. It lives inside a synctest
// bubble: time stands still until nothing can go on without it.
type world struct {
	t       *testing.T
	cfg     Config
	store   *persistencetest.Memory
	through conversation.Store // what the engine is given; nil = store
	log     slog.Handler
	metrics *prometheus.Registry
	pub     *actorstest.Publisher
	model   *actorstest.Model
	models  map[string]conversation.Model // nil = model for everybody
	tools   map[string]conversation.Tool
	journal *actorstest.Journal
	e       *Engine
	m       *metrics.Actors
	cancel  context.CancelFunc
	ran     chan error
}

// inWorld runs f in a bubble with an engine that runs, and ends it.
func inWorld(t *testing.T, change func(*world), f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cfg: testConfig(), store: persistencetest.NewMemory(), journal: &actorstest.Journal{}}
		w.pub = &actorstest.Publisher{Journal: w.journal, Log: w.logged}
		w.model = &actorstest.Model{Name: "fake", Journal: w.journal}
		if change != nil {
			change(w)
		}
		w.start()
		defer w.stop() // also after a failure: the scans would keep the bubble alive for ever
		f(t, w)
	})
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Node = "n1"
	cfg.IdleJitter = 0
	cfg.Rules = conversation.Rules{
		Policy: conversation.DefaultPolicy(),
		Agents: map[conversation.AgentName]conversation.Profile{
			conversation.Coordinator: {Name: conversation.Coordinator, Tools: []string{"*"}, MayAsk: true, Delegates: true, EngineTools: true},
			researcher:               {Name: researcher, Tools: []string{"*"}, MayAsk: true, Delegates: true, Delegable: true, EngineTools: true},
			conversation.Outside:     {Name: conversation.Outside},
		},
		Tools: map[string]conversation.ToolRule{},
	}
	return cfg
}

func (w *world) start() {
	w.t.Helper()
	for name, tool := range w.tools {
		w.cfg.Rules.Tools[name] = conversation.ToolRule{Spec: tool.Spec()}
	}
	w.metrics = prometheus.NewRegistry()
	w.m = metrics.NewActors(w.metrics)
	if w.log == nil {
		w.log = slog.DiscardHandler
	}
	if os.Getenv("PARLEY_TEST_LOG") != "" {
		w.log = slog.NewTextHandler(os.Stderr, nil)
	}
	if w.through == nil {
		w.through = w.store
	}
	if w.models == nil {
		w.models = map[string]conversation.Model{"": w.model}
	}
	e, err := New(w.cfg, Deps{
		Store: w.through, Publisher: w.pub, Models: maps.Clone(w.models), Tools: w.tools,
		Logger: slog.New(w.log), Metrics: w.m,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.e, w.cancel, w.ran = e, cancel, make(chan error, 1)
	go func() { w.ran <- e.Run(ctx) }()
	synctest.Wait()
}

// stop ends the engine as a crash would, but without leaving anything behind.
func (w *world) stop() {
	w.t.Helper()
	w.cancel()
	if err := <-w.ran; err != nil {
		w.t.Error(err)
	}
	time.Sleep(time.Minute) // what waits for time to pass must come to its end too
	synctest.Wait()
	if n := w.e.registry.count(); n != 0 {
		w.t.Errorf("%d sessions are in memory after the end", n)
	}
	w.e.admission.mu.Lock()
	defer w.e.admission.mu.Unlock()
	if w.e.admission.used != 0 || w.e.admission.waiting != 0 {
		w.t.Errorf("%d slots are in use and %d waited for after the end", w.e.admission.used, w.e.admission.waiting)
	}
}

// restart is a crash and a new process on the same store.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
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
func (w *world) tell(key conversation.SessionKey, c conversation.Command) *answer {
	a := &answer{}
	w.e.Tell(key, ada, c, func(r conversation.Receipt, err error) {
		w.journal.Add("answer " + c.Name())
		a.mu.Lock()
		defer a.mu.Unlock()
		a.times++
		a.receipt, a.err = r, err
	})
	return a
}

// ok waits until nothing moves, and wants the answer to be positive.
func (w *world) ok(a *answer) conversation.Receipt {
	w.t.Helper()
	synctest.Wait()
	times, r, err := a.get()
	if times != 1 || err != nil {
		w.t.Fatalf("answered %d times, with %+v, %v", times, r, err)
	}
	return r
}

// refused waits until nothing moves, and wants the answer to be a refusal.
func (w *world) refused(a *answer, code conversation.Code) *conversation.Error {
	w.t.Helper()
	synctest.Wait()
	times, r, err := a.get()
	if times != 1 || err == nil || conversation.AsError(err).Code != code {
		w.t.Fatalf("answered %d times, with %+v, %v; wanted %s", times, r, err, code)
	}
	return conversation.AsError(err)
}

// silent waits until nothing moves, and wants no answer yet.
func (w *world) silent(a *answer) {
	w.t.Helper()
	synctest.Wait()
	if times, r, err := a.get(); times != 0 {
		w.t.Fatalf("answered %d times too early, with %+v, %v", times, r, err)
	}
}

func (w *world) create(key conversation.SessionKey) {
	w.t.Helper()
	w.createAs(key, conversation.Create{Owner: ada})
}

func (w *world) createAs(key conversation.SessionKey, c conversation.Create) {
	w.t.Helper()
	var created bool
	var failed error
	w.e.Create(key, c, func(ok bool, err error) { created, failed = ok, err })
	synctest.Wait()
	if !created || failed != nil {
		w.t.Fatalf("created %v, %v", created, failed)
	}
}

func say(id, text string) conversation.Say {
	return conversation.Say{Author: ada, Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(id), Text: text}
}

// call is the only open model call.
func (w *world) call() *actorstest.Call {
	w.t.Helper()
	synctest.Wait()
	open := w.model.Open()
	if len(open) != 1 {
		w.t.Fatalf("%d model calls are open", len(open))
	}
	return open[0]
}

// reply answers the only open model call.
func (w *world) reply(items ...conversation.Item) {
	w.t.Helper()
	w.call().Answer(items...)
	synctest.Wait()
}

func (w *world) view(key conversation.SessionKey) conversation.View {
	w.t.Helper()
	var v conversation.View
	err := fmt.Errorf("no answer")
	w.e.View(key, ada, func(view conversation.View, failed error) { v, err = view, failed })
	synctest.Wait()
	if err != nil {
		w.t.Fatalf("view of %s: %v", key, err)
	}
	return v
}

// stored is what the store has of a session.
func (w *world) stored(key conversation.SessionKey) []conversation.Event {
	w.t.Helper()
	var events []conversation.Event
	for r, err := range w.store.Records(w.t.Context(), key, conversation.Range{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		events = append(events, r.Events...)
	}
	return events
}

// logged is what the store has of a session behind a seq.
func (w *world) logged(key conversation.SessionKey, after conversation.Seq) []conversation.Event {
	var events []conversation.Event
	for r := range w.store.Records(context.Background(), key, conversation.Range{After: after}) {
		events = append(events, r.Events...)
	}
	return slices.DeleteFunc(events, func(e conversation.Event) bool { return e.Seq <= after })
}

// forget takes a session out of memory.
func (w *world) forget(key conversation.SessionKey) {
	w.e.registry.deliver(key, &leaveNow{reason: "idle", err: errUnreachable()}, false)
	synctest.Wait()
}

// children are the child actors of a session.
func (w *world) children(key conversation.SessionKey) []*actor.PID {
	sh := w.e.registry.shard(key)
	sh.mu.Lock()
	parent := sh.pids[key]
	sh.mu.Unlock()
	var pids []*actor.PID
	for _, bucket := range w.e.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range bucket.Keys() {
			if parent != nil && strings.HasPrefix(id, parent.Id+"/") {
				pids = append(pids, w.e.system.NewLocalPID(id))
			}
		}
	}
	return pids
}

// slots is how many slots are counted as used.
func (w *world) slots() int {
	w.e.admission.mu.Lock()
	defer w.e.admission.mu.Unlock()
	return w.e.admission.used
}

func kinds(events []conversation.Event) []string {
	var names []string
	for _, e := range events {
		names = append(names, e.Body.Kind().String())
	}
	return names
}

// count is how many events of a kind the store has.
func (w *world) count(key conversation.SessionKey, kind conversation.EventKind) int {
	w.t.Helper()
	n := 0
	for _, e := range w.stored(key) {
		if e.Body.Kind() == kind {
			n++
		}
	}
	return n
}

// whole wants everything stored to be published, once and in order.
func (w *world) whole(key conversation.SessionKey) {
	w.t.Helper()
	stored, published := kinds(w.stored(key)), kinds(w.pub.Events(key))
	if !slices.Equal(stored, published) {
		w.t.Errorf("stored    %v\npublished %v", stored, published)
	}
}

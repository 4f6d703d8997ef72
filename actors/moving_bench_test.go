package actors

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/conversation/member"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

// benchSessions is with how many sessions a benchmark runs: with PARLEY_BENCH_SESSIONS set, so
// many; else few, so that every benchmark can be run once in a moment.
func benchSessions(b *testing.B, few int) int {
	b.Helper()
	if n, err := strconv.Atoi(os.Getenv("PARLEY_BENCH_SESSIONS")); err == nil {
		return n
	}
	return few
}

// looked is how long look-ups took: messages to sessions in memory that are answered at once.
type looked struct {
	mu  sync.Mutex
	all []time.Duration
}

const lookedUp = 64 // sessions that are looked up

func lookKey(i int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "looked", Session: conversation.SessionID(fmt.Sprintf("aaaaaaaaaaa%05d", i))}
}

// lookUp looks sessions up, 4 at once and each a thousand times a second at most, until ctx ends.
func lookUp(ctx context.Context, b *testing.B, e *Engine) *looked {
	b.Helper()
	l := &looked{}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			answered := make(chan error, 1)
			for i := n; ctx.Err() == nil; i++ {
				began := time.Now()
				e.Tell(lookKey(i%lookedUp), ada, say("a", "hello"), func(_ conversation.Receipt, err error) { answered <- err })
				err := <-answered
				took := time.Since(began)
				if err != nil {
					b.Error(err)
					return
				}
				l.mu.Lock()
				l.all = append(l.all, took)
				l.mu.Unlock()
				<-tick.C
			}
		})
	}
	all.Wait()
	return l
}

// report reports the look-ups of a benchmark under a name.
func (l *looked) report(b *testing.B, name string, took time.Duration) {
	b.Helper()
	slices.Sort(l.all)
	if len(l.all) == 0 {
		b.Fatal("nothing was looked up")
	}
	b.ReportMetric(float64(l.all[len(l.all)/2].Microseconds()), name+"-p50-µs")
	b.ReportMetric(float64(l.all[len(l.all)*99/100].Microseconds()), name+"-p99-µs")
	b.ReportMetric(float64(l.all[len(l.all)-1].Microseconds())/1000, name+"-worst-ms")
	b.ReportMetric(float64(len(l.all))/took.Seconds(), name+"-look-ups/s")
}

// withLookUps reports look-ups while nothing else happens, and while work runs.
func withLookUps(b *testing.B, e *Engine, work func()) (took time.Duration) {
	b.Helper()
	var stored sync.WaitGroup
	for i := range lookedUp {
		stored.Add(1)
		e.Create(lookKey(i), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) {})
		e.Tell(lookKey(i), ada, say("a", "hello"), func(conversation.Receipt, error) { stored.Done() })
	}
	stored.Wait()
	quiet := 300 * time.Millisecond
	ctx, cancel := context.WithTimeout(b.Context(), quiet)
	lookUp(ctx, b, e).report(b, "quiet", quiet)
	cancel()

	ctx, cancel = context.WithCancel(b.Context())
	seen := make(chan *looked)
	go func() { seen <- lookUp(ctx, b, e) }()
	began := time.Now()
	work()
	took = time.Since(began)
	cancel()
	(<-seen).report(b, "busy", took)
	return took
}

// joined joins a node to a store's list, with a lease that does not end.
func joined(b *testing.B, store *persistencetest.Memory, name conversation.NodeID) conversation.Member {
	b.Helper()
	m, err := store.Join(b.Context(), member.Info{Member: conversation.Member{Node: name}, Sessions: true}, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// A store in maps has one lock, which all sessions would wait for: where no log is read again,
// these benchmarks have a store that keeps nothing.

// BenchmarkPassivations has sessions come into memory, and leave it because they are idle, while
// others are looked up. PARLEY_BENCH_SESSIONS=100000 are the numbers that docs/SCALING.md quotes.
func BenchmarkPassivations(b *testing.B) {
	n := benchSessions(b, 500)
	for b.Loop() {
		cfg := testConfig()
		cfg.Idle, cfg.IdleJitter, cfg.Member = time.Second, time.Second, conversation.Member{Node: cfg.Node, Incarnation: 1}
		e, stop := benchEngine(b, cfg, discardStore{}, instantModel{}, nil)
		took := withLookUps(b, e, func() {
			under := make(chan struct{}, 256)
			for i := range n {
				under <- struct{}{}
				e.Create(session2(i), conversation.Create{Owner: ada}, func(_ conversation.SessionKey, _ bool, err error) {
					if err != nil {
						b.Error(err)
					}
					<-under
				})
			}
			look := time.NewTicker(10 * time.Millisecond)
			defer look.Stop()
			for e.registry.Count() > lookedUp {
				<-look.C
			}
		})
		b.ReportMetric(float64(n)/took.Seconds(), "passivations/s")
		stop()
	}
}

// onlyLookedUp says that the sessions which are looked up are here, and all others elsewhere once
// they have to move.
type onlyLookedUp struct{ moving chan struct{} }

func (o onlyLookedUp) Local(root conversation.SessionKey) (conversation.Member, bool) {
	select {
	case <-o.moving:
		return conversation.Member{Node: "n2", Incarnation: 1}, root.Tenant == "looked"
	default:
		return conversation.Member{}, true
	}
}

// BenchmarkHandOver gives up all sessions in memory at once, of which every tenth works for a
// while, while others are looked up.
func BenchmarkHandOver(b *testing.B) {
	n := benchSessions(b, 500)
	for b.Loop() {
		cfg := testConfig()
		cfg.MaxConcurrent, cfg.DrainTimeout, cfg.Idle, cfg.Member = n, 500*time.Millisecond, time.Hour, conversation.Member{Node: cfg.Node, Incarnation: 1}
		place := onlyLookedUp{make(chan struct{})}
		e, stop := benchEngineOf(b, cfg, Deps{Store: discardStore{}, Models: map[string]conversation.Model{"": &actorstest.Model{}}, Placement: place})
		var stored sync.WaitGroup
		for i := range n {
			stored.Add(1)
			e.Create(session2(i), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) { stored.Done() })
			if i%10 == 0 {
				stored.Add(1)
				e.Tell(session2(i), ada, say("a", "a long question"), func(conversation.Receipt, error) { stored.Done() })
			}
		}
		stored.Wait()
		took := withLookUps(b, e, func() {
			close(place.moving)
			if err := e.HandOver(b.Context()); err != nil {
				b.Error(err)
			}
		})
		b.ReportMetric(float64(n)/took.Seconds(), "handed-over/s")
		stop()
	}
}

// roomy is a store in maps that says without a lock that it has room, as stores must: what is
// measured is the engine, and not that all sessions share one lock there.
type roomy struct{ *persistencetest.Memory }

func (roomy) Room(bool) error { return nil }

// unreleased is a store of a process that dies: it gives nothing up.
type unreleased struct{ conversation.Store }

func (unreleased) Release(context.Context, conversation.SessionKey, conversation.Epoch, func(error)) {
}

// BenchmarkTakeover takes over the sessions of a dead node, each with a message that waits for its
// answer, while others are looked up. PARLEY_BENCH_SESSIONS=10000 are the numbers that
// docs/SCALING.md quotes.
func BenchmarkTakeover(b *testing.B) {
	n := benchSessions(b, 500)
	for b.Loop() {
		store := persistencetest.NewMemory()
		cfg := testConfig()
		cfg.Node = "n1"
		cfg.Member = joined(b, store, cfg.Node)
		dead, stop := benchEngine(b, cfg, unreleased{roomy{store}}, &actorstest.Model{}, nil)
		var stored sync.WaitGroup
		for i := range n {
			stored.Add(1)
			dead.Create(session2(i), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) {})
			dead.Tell(session2(i), ada, say("a", "hello"), func(conversation.Receipt, error) { stored.Done() })
		}
		stored.Wait()
		stop()
		cfg.Node = "n2"
		cfg.Member = joined(b, store, cfg.Node)
		var answered sync.WaitGroup
		answered.Add(n)
		e, stop := benchEngine(b, cfg, roomy{store}, instantModel{}, func(key conversation.SessionKey) {
			if key.Tenant != "looked" {
				answered.Done()
			}
		})
		took := withLookUps(b, e, func() {
			joined(b, store, "n1") // its process has started again: those of before are nobody's
			e.ScanNow()
			answered.Wait()
		})
		b.ReportMetric(float64(n)/took.Seconds(), "taken-over/s")
		stop()
	}
}

// benchEngineOf is an engine that keeps nothing beside its store.
func benchEngineOf(b *testing.B, cfg Config, d Deps) (e *Engine, stop func()) {
	b.Helper()
	if d.Publisher == nil {
		d.Publisher = discardPublisher{}
	}
	d.Logger, d.Metrics = slog.New(slog.DiscardHandler), metrics.NewActors(prometheus.NewRegistry())
	e, err := New(cfg, d)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	for e.Ready() != nil {
		runtime.Gosched()
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return e, stop
}

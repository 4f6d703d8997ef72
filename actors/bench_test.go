package actors

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/metrics"
	"parley/persistence/persistencetest"
)

// nobody is a publisher without followers.
type nobody struct{ ended func() }

func (n nobody) Publish(_ conversation.SessionKey, events []conversation.Event) {
	for i := range events {
		if b, ok := events[i].Body.(conversation.TaskStatusChanged); ok && b.New.Ended() && n.ended != nil {
			n.ended()
		}
	}
}
func (nobody) Show(conversation.SessionKey, conversation.Seq, conversation.Ephemeral) {}
func (nobody) Gone(conversation.SessionKey, string)                                   {}

// benchEngine is an engine over a store in maps and a model that answers at once.
func benchEngine(b *testing.B, cfg Config, store conversation.Store, model conversation.Model, ended func()) (e *Engine, stop func()) {
	b.Helper()
	e, err := New(cfg, Deps{
		Store: store, Publisher: nobody{ended}, Models: map[string]conversation.Model{"": model},
		Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewActors(prometheus.NewRegistry()),
	})
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

// BenchmarkTurns measures whole turns: a message, its commit, a model's answer,
// the response's commit. The store is a map, so this is the shell's own cost and
// the machine's.
func BenchmarkTurns(b *testing.B) {
	const sessions = 256
	var turns sync.WaitGroup
	cfg := testConfig()
	cfg.MaxConcurrent = sessions
	e, _ := benchEngine(b, cfg, persistencetest.NewMemory(), instant{}, turns.Done)
	for i := range sessions {
		done := make(chan struct{})
		e.Create(session2(i), conversation.Create{Owner: ada}, func(bool, error) { close(done) })
		<-done
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		turns.Add(1)
		e.Tell(session2(i%sessions), ada, conversation.Say{
			Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint(i)), Text: "hello", Mode: conversation.ModeQueue,
		}, func(_ conversation.Receipt, err error) {
			if err != nil {
				b.Error(err)
				turns.Done()
			}
		})
		if i%sessions == sessions-1 {
			turns.Wait()
		}
	}
	turns.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
}

// BenchmarkRecovery measures how soon 10,000 queued messages of as many sessions
// are all answered after a restart (N-02).
func BenchmarkRecovery(b *testing.B) {
	const sessions = 10_000
	for b.Loop() {
		b.StopTimer()
		store := persistencetest.NewMemory()
		cfg := testConfig()
		before, stop := benchEngine(b, cfg, store, &actorstest.Model{}, nil)
		var stored, answered sync.WaitGroup
		stored.Add(sessions)
		answered.Add(sessions)
		for i := range sessions {
			before.Create(session2(i), conversation.Create{Owner: ada}, func(bool, error) {})
			before.Tell(session2(i), ada, say("a", "hello"), func(_ conversation.Receipt, err error) {
				if err != nil {
					b.Error(err)
				}
				stored.Done()
			})
		}
		stored.Wait()
		stop()
		b.StartTimer()
		_, stop = benchEngine(b, cfg, store, instant{}, answered.Done)
		answered.Wait()
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

// BenchmarkIdleSession reports what an idle session takes in memory after so many
// tasks (N-09).
func BenchmarkIdleSession(b *testing.B) {
	for _, tasks := range []int{0, 10, 100} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) {
			const sessions = 500
			var turns sync.WaitGroup
			cfg := testConfig()
			cfg.MaxConcurrent = sessions
			cfg.SnapshotEvery = 1
			e, _ := benchEngine(b, cfg, persistencetest.NewMemory(), instant{}, turns.Done)
			heap := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc + m.StackInuse
			}
			var created sync.WaitGroup
			for i := range sessions {
				created.Add(1)
				e.Create(session2(i), conversation.Create{Owner: ada}, func(bool, error) { created.Done() })
			}
			created.Wait()
			for n := range tasks {
				for i := range sessions {
					turns.Add(1)
					e.Tell(session2(i), ada, say(fmt.Sprint(n), "hello"), func(conversation.Receipt, error) {})
				}
				turns.Wait()
			}
			// They come back from their snapshots, as those who slept do.
			gone := func() {
				for i := range sessions {
					e.registry.deliver(session2(i), &leaveNow{reason: "idle", err: errUnreachable()}, false)
				}
				for e.registry.count() > 0 {
					runtime.Gosched()
				}
			}
			gone()
			var loaded sync.WaitGroup
			for i := range sessions {
				loaded.Add(1)
				e.tellInner(session2(i), nil, func(conversation.Receipt, error) { loaded.Done() })
			}
			loaded.Wait()
			before := heap()
			gone()
			after := heap()
			for b.Loop() {
				_ = after // the figure is a size; there is nothing to repeat
			}
			b.ReportMetric(float64(before-after)/sessions, "bytes/session")
		})
	}
}

// instant answers every request at once and remembers nothing.
type instant struct{}

func (instant) Label() string { return "instant" }

func (instant) Stream(context.Context, conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		yield(conversation.Output{Done: &conversation.ModelAnswer{Items: []conversation.Item{actorstest.Text("hi")}}}, nil)
	}
}

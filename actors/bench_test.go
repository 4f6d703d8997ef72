package actors

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
	"parley/persistence/persistencetest"
)

// discardPublisher is a publisher without followers.
type discardPublisher struct{ ended func(conversation.SessionKey) }

func (n discardPublisher) Publish(key conversation.SessionKey, _ conversation.Epoch, events []conversation.Event) {
	for i := range events {
		if b, ok := events[i].Body.(conversation.TaskStatusChanged); ok && b.New.Ended() && n.ended != nil {
			n.ended(key)
		}
	}
}
func (discardPublisher) Show(conversation.SessionKey, conversation.Epoch, conversation.Seq, conversation.Ephemeral) {
}
func (discardPublisher) Stored(conversation.SessionKey, conversation.Epoch, conversation.Seq)       {}
func (discardPublisher) Gone(conversation.SessionKey, string)                                       {}
func (discardPublisher) Audience(conversation.SessionKey, conversation.Epoch, conversation.Summary) {}

// benchEngine is an engine over a store in maps and a model that answers at once.
func benchEngine(b *testing.B, cfg Config, store conversation.Store, model conversation.Model, ended func(conversation.SessionKey)) (e *Engine, stop func()) {
	b.Helper()
	return benchEngineOf(b, cfg, Deps{Store: store, Publisher: discardPublisher{ended}, Models: map[string]conversation.Model{"": model}})
}

// BenchmarkTurns measures whole turns: a message, its commit, a model's answer,
// the response's commit. The store is a map.
func BenchmarkTurns(b *testing.B) { benchTurns(b, persistencetest.NewMemory()) }

// BenchmarkTurnsWithoutStore measures them with a store that keeps nothing: this is the
// shell's own cost and the machine's.
func BenchmarkTurnsWithoutStore(b *testing.B) { benchTurns(b, discardStore{}) }

func benchTurns(b *testing.B, store conversation.Store) {
	b.Helper()
	const sessions = 256
	var turns sync.WaitGroup
	cfg := testConfig()
	cfg.MaxConcurrent = sessions
	e, _ := benchEngine(b, cfg, store, instantModel{}, func(conversation.SessionKey) { turns.Done() })
	for i := range sessions {
		done := make(chan struct{})
		e.Create(session2(i), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) { close(done) })
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

// BenchmarkTurnsOfManyClients measures turns of so many clients at once, each in its own
// session and with one message after the other: what sessions share shows by -cpu 2,4,8
// with -mutexprofile.
func BenchmarkTurnsOfManyClients(b *testing.B) {
	for _, clients := range []int{200, 1000} {
		b.Run(fmt.Sprint("clients=", clients), func(b *testing.B) {
			ended := map[conversation.SessionKey]chan struct{}{}
			for i := range clients {
				ended[session2(i)] = make(chan struct{}, 1)
			}
			store := groupStore{done: make(chan func(error), clients)}
			defer close(store.done)
			go store.run()
			cfg := testConfig()
			cfg.MaxConcurrent = clients
			e, stop := benchEngine(b, cfg, store, instantModel{}, func(key conversation.SessionKey) { ended[key] <- struct{}{} })
			defer stop() // before the store ends
			for i := range clients {
				key := session2(i)
				e.Create(key, conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) { ended[key] <- struct{}{} })
				<-ended[key]
			}
			b.ReportAllocs()
			b.ResetTimer()
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					key := session2(i)
					for n := i; n < b.N; n += clients {
						e.Tell(key, ada, say(fmt.Sprint(n), "hello"), func(conversation.Receipt, error) {})
						<-ended[key]
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
		})
	}
}

// BenchmarkRecovery measures how soon 10,000 queued messages of as many sessions
// are all answered after a restart (N-02); with -short, 100.
func BenchmarkRecovery(b *testing.B) {
	sessions := 10_000
	if testing.Short() {
		sessions = 100
	}
	for b.Loop() {
		b.StopTimer()
		store := persistencetest.NewMemory()
		cfg := testConfig()
		before, stop := benchEngine(b, cfg, store, &actorstest.Model{}, nil)
		var stored, answered sync.WaitGroup
		stored.Add(sessions)
		answered.Add(sessions)
		for i := range sessions {
			before.Create(session2(i), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) {})
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
		_, stop = benchEngine(b, cfg, store, instantModel{}, func(conversation.SessionKey) { answered.Done() })
		answered.Wait()
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

// BenchmarkIdleSession reports what an idle session takes in memory after so many
// tasks, the store aside (N-09). With -short it runs in small, and its figures
// mean nothing.
func BenchmarkIdleSession(b *testing.B) {
	for _, tasks := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("tasks=%d", tasks), func(b *testing.B) {
			sessions, cacheIdle := 2000, time.Second
			if testing.Short() {
				sessions, cacheIdle = 50, 10*time.Millisecond
			}
			var turns sync.WaitGroup
			cfg := testConfig()
			cfg.MaxConcurrent = sessions
			cfg.CacheIdle = cacheIdle
			e, _ := benchEngine(b, cfg, discardStore{}, instantModel{}, func(conversation.SessionKey) { turns.Done() })
			heap := func() float64 {
				time.Sleep(3 * cfg.CacheIdle) // transcripts go, and goroutines that wait for work
				var m runtime.MemStats
				runtime.GC()
				runtime.GC() // the first one leaves pools their last chance
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc)
			}
			grow := func(from, to int) {
				for i := from; i < to; i++ {
					turns.Add(1)
					e.Create(session2(i), conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) { turns.Done() })
				}
				for n := range tasks {
					for i := from; i < to; i++ {
						turns.Add(1)
						e.Tell(session2(i), ada, say(fmt.Sprintf("%016d", n), "hello"), func(conversation.Receipt, error) {})
					}
					turns.Wait()
				}
				turns.Wait()
			}
			grow(0, 64)
			before := heap()
			grow(64, 64+sessions)
			after := heap()
			for b.Loop() {
				_ = after // the figure is a size; there is nothing to repeat
			}
			if n := e.registry.Count(); n != 64+sessions {
				b.Fatalf("%d sessions are in memory", n)
			}
			b.ReportMetric((after-before)/float64(sessions), "bytes/session")
		})
	}
}

// discardStore is a store that takes everything and has nothing.
type discardStore struct{ conversation.Store }

func (discardStore) LogID() conversation.LogID { return "log" }

func (discardStore) Room(bool) error { return nil }

func (discardStore) Acquire(_ context.Context, _ conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	if !how.Create {
		return conversation.Head{}, conversation.ErrNotFound
	}
	return conversation.Head{Epoch: 1}, nil
}

func (discardStore) Commit(context.Context, conversation.SessionKey, conversation.Commit) error {
	return nil
}

func (discardStore) CommitAsync(_ context.Context, _ conversation.SessionKey, _ *conversation.Commit, done func(error)) {
	done(nil)
}

func (discardStore) Release(_ context.Context, _ conversation.SessionKey, _ conversation.Epoch, done func(error)) {
	if done != nil {
		done(nil)
	}
}
func (discardStore) MayHold(conversation.SessionKey, conversation.Key) bool { return false }

func (discardStore) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(func(conversation.Record, error) bool) {}
}

func (discardStore) Due(context.Context, time.Time, conversation.Member) iter.Seq2[conversation.SessionKey, error] {
	return func(func(conversation.SessionKey, error) bool) {}
}

// groupStore is one of these that tells the ends of commits from a goroutine of its own,
// as a store does that joins them.
type groupStore struct {
	discardStore
	done chan func(error)
}

func (s groupStore) CommitAsync(_ context.Context, _ conversation.SessionKey, _ *conversation.Commit, done func(error)) {
	s.done <- done
}

func (s groupStore) run() {
	for done := range s.done {
		done(nil)
	}
}

// instantModel answers every request at once and remembers nothing.
type instantModel struct{}

func (instantModel) Label() string { return "instant" }

func (instantModel) Stream(context.Context, conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		yield(conversation.Output{Done: &conversation.ModelAnswer{Items: []conversation.Item{actorstest.Text("hi")}}}, nil)
	}
}

package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/gateway"
	"parley/metrics"
	"parley/persistence/pebble"
)

// BenchmarkSessionMemory reports what a session takes in memory in all rooms
// together, with nobody following it: idle after so many tasks, and once it has
// left memory (N-09). The store keeps the heads of few sessions that are not in
// memory, so that what it keeps of all of them would show. What a process takes
// once is left out: as many sessions before them fill its pools, and visits to
// absent ones the 32,768 tables of the actor library (up to 9 MB). With -short it
// runs in small, within seconds, and its figures mean nothing.
func BenchmarkSessionMemory(b *testing.B) {
	for _, state := range []struct {
		name  string
		tasks int
		gone  bool
	}{
		{"idle/tasks=0", 0, false}, {"idle/tasks=1", 1, false}, {"idle/tasks=100", 100, false}, {"gone/tasks=10", 10, true},
	} {
		b.Run(state.name, func(b *testing.B) {
			warm, sessions, absent, settle := 1000, 1000, 100_000, 4*time.Second // session.cache_idle and the sweep of idle workers have passed
			if testing.Short() {
				warm, sessions, absent, settle = 10, 50, 1000, 0
			}
			e, ended := memoryEngine(b, state.gone)
			key := func(i int) conversation.SessionKey {
				return conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(fmt.Sprintf("s%015d", i))}
			}
			grow := func(from, to int) {
				for i := from; i < to; i++ {
					ended.Add(1)
					e.Create(key(i), conversation.Create{Owner: "u"}, func(conversation.SessionKey, bool, error) { ended.Done() })
				}
				for n := range state.tasks {
					for i := from; i < to; i++ {
						ended.Add(1)
						e.Tell(key(i), "u", conversation.Say{
							Author: "u", ClientMsgID: conversation.ClientMsgID(fmt.Sprint(n)), Text: "hello", Mode: conversation.ModeQueue,
						}, func(_ conversation.Receipt, err error) {
							if err != nil {
								b.Error(err)
								ended.Done()
							}
						})
					}
					ended.Wait()
				}
				ended.Wait()
			}
			for i := range absent {
				ended.Add(1)
				e.Tell(key(1_000_000+i), "u", conversation.Cancel{}, func(conversation.Receipt, error) { ended.Done() })
				if i%1000 == 999 {
					ended.Wait()
				}
			}
			grow(0, warm)
			before := heapAfter(settle)
			grow(warm, warm+sessions)
			after := heapAfter(settle)
			for b.Loop() {
				_ = after // the figure is a size; there is nothing to repeat
			}
			b.ReportMetric((after-before)/float64(sessions), "bytes/session")
			runtime.KeepAlive(e)
		})
	}
}

// BenchmarkFirst measures what comes first, through the engine and the store on disk:
// sessions that are made, alone and with a first turn, 64 at a time, and, one after
// the other, the time from a message to its acknowledgement in a session that is not
// in memory. cpu-µs is the processor's time, which the load of others moves least.
func BenchmarkFirst(b *testing.B) {
	o := pebble.Defaults()
	o.Ballast = 0
	say := func(id int) conversation.Say {
		return conversation.Say{Author: "u", ClientMsgID: conversation.ClientMsgID(fmt.Sprint(id)), Text: "hello", Mode: conversation.ModeQueue}
	}
	key := func(i int) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(fmt.Sprintf("s%015d", i))}
	}
	for _, turns := range []int{0, 1} {
		b.Run([]string{"create", "create and turn"}[turns], func(b *testing.B) {
			e, ended, _ := engineOn(b, openStore(b, o), func(*actors.Config) {}, echo{})
			b.ReportAllocs()
			perCPU(b, func() {
				for i := range b.N {
					ended.Add(1 + turns)
					e.Create(key(i), conversation.Create{Owner: "u"}, func(key conversation.SessionKey, _ bool, err error) {
						if err != nil {
							b.Error(err)
						}
						if turns == 1 {
							e.Tell(key, "u", say(0), func(conversation.Receipt, error) {})
						}
						ended.Done()
					})
					if i%64 == 63 {
						ended.Wait()
					}
				}
				ended.Wait()
			})
		})
	}
	b.Run("activation of 1,000 events", func(b *testing.B) {
		n := 143
		if testing.Short() {
			n = 3
		}
		db := openStore(b, o)
		e, ended, stop := engineOn(b, db, func(*actors.Config) {}, echo{})
		for i := range b.N {
			ended.Add(1)
			e.Create(key(i), conversation.Create{Owner: "u"}, func(conversation.SessionKey, bool, error) { ended.Done() })
		}
		for m := range n {
			for i := range b.N {
				ended.Add(1)
				e.Tell(key(i), "u", say(m), func(conversation.Receipt, error) {})
			}
			ended.Wait()
		}
		stop()
		e, ended, _ = engineOn(b, db, func(*actors.Config) {}, echo{})
		took := make([]time.Duration, b.N)
		b.ReportAllocs()
		b.ResetTimer()
		perCPU(b, func() {
			for i := range b.N {
				ended.Add(1)
				began, acked := time.Now(), make(chan error, 1)
				e.Tell(key(i), "u", say(n), func(_ conversation.Receipt, err error) { acked <- err })
				if err := <-acked; err != nil {
					b.Fatal(err)
				}
				took[i] = time.Since(began)
				ended.Wait()
			}
		})
		slices.Sort(took)
		b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
	})
}

// BenchmarkQueuedAgain measures how long a new engine takes until 10,000 messages, queued
// in a session each, run: with -short, 100. In the meantime a new client makes a session,
// again and again: what it waits for longest is reported too.
func BenchmarkQueuedAgain(b *testing.B) {
	n := 10_000
	if testing.Short() {
		n = 100
	}
	key := func(i int) conversation.SessionKey {
		return conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(fmt.Sprintf("s%015d", i))}
	}
	o := pebble.Defaults()
	o.Ballast = 0
	var cpu, waited time.Duration
	for b.Loop() {
		b.StopTimer()
		db := openStore(b, o)
		e, _, stop := engineOn(b, db, func(cfg *actors.Config) { cfg.MaxConcurrent = 1 }, newSilent())
		var stored sync.WaitGroup
		for i := range n {
			stored.Add(1)
			e.Create(key(i), conversation.Create{Owner: "u"}, func(conversation.SessionKey, bool, error) {})
			e.Tell(key(i), "u", conversation.Say{Author: "u", ClientMsgID: "1", Text: "hello", Mode: conversation.ModeQueue},
				func(_ conversation.Receipt, err error) {
					if err != nil {
						b.Error(err)
					}
					stored.Done()
				})
		}
		stored.Wait()
		stop()
		runtime.GC()
		asked := newSilent()
		b.StartTimer()
		before := usedCPU(b)
		e, _, stop = engineOn(b, db, func(*actors.Config) {}, asked)
		for i := n; asked.n.Load() < int64(n); i++ {
			began, acked := time.Now(), make(chan error, 1)
			e.Create(key(i), conversation.Create{Owner: "u"}, func(_ conversation.SessionKey, _ bool, err error) { acked <- err })
			if err := <-acked; err != nil {
				b.Fatal(err)
			}
			waited = max(waited, time.Since(began))
		}
		cpu += usedCPU(b) - before
		b.StopTimer()
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(waited.Microseconds()), "longest-create-µs")
}

// silent is a model that never answers, and counts what it was asked.
type silent struct{ n *atomic.Int64 }

func newSilent() silent { return silent{new(atomic.Int64)} }

func (silent) Label() string { return "silent" }

func (s silent) Stream(ctx context.Context, _ conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		s.n.Add(1)
		<-ctx.Done()
		yield(conversation.Output{}, ctx.Err())
	}
}

// perCPU reports how much of the processors' time a round of work takes.
func perCPU(b *testing.B, work func()) {
	before := usedCPU(b)
	work()
	b.ReportMetric(float64((usedCPU(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
}

// usedCPU is the processors' time that this process has used.
func usedCPU(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heapAfter is the live heap after a wait, in which transcripts, idle goroutines
// and, if they may, sessions leave memory.
func heapAfter(wait time.Duration) float64 {
	<-time.After(wait)
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves pools their last chance
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// memoryEngine is an engine on a store on disk, with a hub and a model that
// answers at once; with leave, sessions leave memory soon.
func memoryEngine(b *testing.B, leave bool) (*actors.Engine, *sync.WaitGroup) {
	b.Helper()
	o := pebble.Defaults()
	o.Ballast, o.Heads = 0, 64
	e, ended, _ := engineOn(b, openStore(b, o), func(cfg *actors.Config) {
		cfg.CacheIdle = time.Second
		if leave {
			cfg.Idle, cfg.IdleJitter = time.Second, 0
		}
	}, echo{})
	return e, ended
}

// openStore is a store on disk until the end of the benchmark.
func openStore(b *testing.B, o pebble.Options) *pebble.DB {
	b.Helper()
	db, err := pebble.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

// engineOn is an engine on a store, with a hub and a model.
func engineOn(b *testing.B, db *pebble.DB, set func(*actors.Config), model conversation.Model) (e *actors.Engine, ended *sync.WaitGroup, stop func()) {
	b.Helper()
	cfg := actors.DefaultConfig()
	cfg.Node, cfg.MaxConcurrent = "n1", 100_000
	set(&cfg)
	cfg.Rules = policy.Rules{
		Policy: policy.DefaultPolicy(),
		Agents: map[conversation.AgentName]policy.Profile{conversation.Coordinator: {Name: conversation.Coordinator, EngineTools: true}},
	}
	registry := prometheus.NewRegistry()
	ended = &sync.WaitGroup{}
	e, err := actors.New(cfg, actors.Deps{
		Store: db, Publisher: countingHub{gateway.NewHub(metrics.NewGateway(registry)), ended},
		Models: map[string]conversation.Model{"": model}, Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewActors(registry),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	<-e.Started()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(stop)
	return e, ended, stop
}

// countingHub is a hub that counts the tasks that end.
type countingHub struct {
	*gateway.Hub
	ended *sync.WaitGroup
}

func (h countingHub) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	h.Hub.Publish(key, 1, events)
	for i := range events {
		if b, ok := events[i].Body.(conversation.TaskStatusChanged); ok && b.New.Ended() {
			h.ended.Done()
		}
	}
}

// echo answers at once.
type echo struct{}

func (echo) Label() string { return "echo" }

func (echo) Stream(context.Context, conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		yield(conversation.Output{Done: &conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "x"}}}}, nil)
	}
}

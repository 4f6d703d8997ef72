package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"sync"
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
	db, err := pebble.Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	cfg := actors.DefaultConfig()
	cfg.Node, cfg.MaxConcurrent, cfg.CacheIdle = "n1", 100_000, time.Second
	if leave {
		cfg.Idle, cfg.IdleJitter = time.Second, 0
	}
	cfg.Rules = policy.Rules{
		Policy: policy.DefaultPolicy(),
		Agents: map[conversation.AgentName]policy.Profile{conversation.Coordinator: {Name: conversation.Coordinator, EngineTools: true}},
	}
	registry := prometheus.NewRegistry()
	var ended sync.WaitGroup
	e, err := actors.New(cfg, actors.Deps{
		Store: db, Publisher: countingHub{gateway.NewHub(metrics.NewGateway(registry)), &ended},
		Models: map[string]conversation.Model{"": echo{}}, Logger: slog.New(slog.DiscardHandler), Metrics: metrics.NewActors(registry),
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	<-e.Started()
	b.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			b.Error(err)
		}
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return e, &ended
}

// countingHub is a hub that counts the tasks that end.
type countingHub struct {
	*gateway.Hub
	ended *sync.WaitGroup
}

func (h countingHub) Publish(key conversation.SessionKey, events []conversation.Event) {
	h.Hub.Publish(key, events)
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

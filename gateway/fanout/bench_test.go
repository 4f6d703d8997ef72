package fanout

import (
	"context"
	"testing"

	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// BenchmarkPublish is what a turn costs from the engine's call to a queue.
func BenchmarkPublish(b *testing.B) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	hub := NewHub(m)
	key := gatewaytest.Key("s1")
	out := hub.NewQueue(nil, protocol.DefaultLimits())
	f := &Subscription{queue: out, key: key, phase: phaseLive, synced: true}
	hub.add(f)
	scratch := make([]byte, 0, WriteBytes)
	commits := gatewaytest.Turn(1)
	b.ReportAllocs()
	for b.Loop() {
		for _, c := range commits {
			f.cursor = c[0].Seq - 1
			hub.Publish(key, 1, c)
		}
		out.Take(context.Background(), scratch)
	}
}

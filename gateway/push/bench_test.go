package push_test

import (
	"context"
	"fmt"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/push"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// BenchmarkCheck is what a message with a registration costs before it is said, where others of the
// tenant have so many.
func BenchmarkCheck(b *testing.B) {
	for _, others := range []int{0, 1000, 3000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			store := gatewaytest.NewChats()
			rules := push.DefaultRules()
			rules.Hosts = []string{"*.example"}
			p := push.New(rules, false, push.Parts{Store: store, Cursors: service.NewCursors(nil), Metrics: metrics.NewPushes(prometheus.NewRegistry()), Wake: func([]byte) {}})
			for i := range others {
				task := conversation.TaskID(fmt.Sprintf("t%d-s%d", i%100, i/100))
				if err := p.Put(context.Background(), wants(task, "a", by("default", conversation.UserID(fmt.Sprint("user", i/100))))); err != nil {
					b.Fatal(err)
				}
			}
			reg := wants("t1-s", "a")
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Check(b.Context(), reg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

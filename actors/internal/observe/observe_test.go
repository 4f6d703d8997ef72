package observe

import (
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/metrics"
)

// Sources that are not a task's trigger have no end, and are not remembered.
func TestOtherSourcesAreForgotten(t *testing.T) {
	env := &Env{Metrics: metrics.NewActors(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
	var o Observer
	const trigger = "m1-aaaaaaaaaaaaaaaa"
	o.remember().acked[trigger] = time.Now()
	for i := range 1000 {
		part := conversation.PartialResponse{}
		part.Source = conversation.SourceID(fmt.Sprint("ext:", i))
		o.Events(env, Session{}, []conversation.Event{{Body: part}})
	}
	part := conversation.PartialResponse{}
	part.Source = trigger
	o.Events(env, Session{}, []conversation.Event{{Body: part}, {Body: part}})
	if n := len(o.tally.parts); n != 1 || o.tally.parts[trigger] != 2 {
		t.Errorf("%d sources are remembered, %d parts of the trigger", n, o.tally.parts[trigger])
	}
}

// A call that a limit has refused is counted by its limit.
func TestRefusedCalls(t *testing.T) {
	registry := prometheus.NewRegistry()
	env := &Env{Metrics: metrics.NewActors(registry), Log: slog.New(slog.DiscardHandler)}
	var o Observer
	for _, summary := range []string{"error: " + conversation.TooManyTools + ": at most 2", "error: " + conversation.TooManyDelegations, "error: no such file", conversation.TooManyTools} {
		o.Events(env, Session{}, []conversation.Event{{Body: conversation.ToolFinished{Status: conversation.CallError, Summary: summary}}})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "parley_calls_refused_total" {
			for _, m := range family.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if want := map[string]float64{"tools.max_parallel": 1, "delegation.max_parallel": 1}; !maps.Equal(got, want) {
		t.Errorf("refused %v, want %v", got, want)
	}
}

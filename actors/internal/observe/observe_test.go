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
	if got, want := counts(t, registry, "parley_calls_refused_total"), map[string]float64{"tools.max_parallel": 1, "delegation.max_parallel": 1}; !maps.Equal(got, want) {
		t.Errorf("refused %v, want %v", got, want)
	}
}

// Answers are counted by why they have ended; a step that has none is not.
func TestStops(t *testing.T) {
	registry := prometheus.NewRegistry()
	env := &Env{Metrics: metrics.NewActors(registry), Log: slog.New(slog.DiscardHandler)}
	var o Observer
	for _, b := range []conversation.StepFinished{
		{Outcome: conversation.StepOK},
		{Outcome: conversation.StepOK, Stop: conversation.StopLength},
		{Outcome: conversation.StepOK, Stop: conversation.StopFiltered},
		{Outcome: conversation.StepError, Error: &conversation.Failure{Code: conversation.Forbidden}},
		{Outcome: conversation.StepError, Error: &conversation.Failure{Code: conversation.Unavailable}},
		{Outcome: conversation.StepCancelled},
	} {
		o.Events(env, Session{}, []conversation.Event{{Body: b}})
	}
	if got, want := counts(t, registry, "parley_model_stops_total"), map[string]float64{"end": 1, "length": 1, "filtered": 2}; !maps.Equal(got, want) {
		t.Errorf("stops %v, want %v", got, want)
	}
}

// counts are a metric's values by its only label.
func counts(t *testing.T, registry *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() == metric {
			for _, m := range family.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return got
}

package observe

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
)

// Sources that are not a task's trigger have no end, and are not remembered.
func TestOtherSourcesAreForgotten(t *testing.T) {
	env, _ := newEnv(metrics.Options{})
	var o Observer
	const trigger = "m1-aaaaaaaaaaaaaaaa"
	o.remember(env).add(message{id: trigger, trigger: true})
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
	env, registry := newEnv(metrics.Options{})
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
	env, registry := newEnv(metrics.Options{})
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
	if got, want := counts(t, registry, "parley_model_stops_total"), map[string]float64{"large end": 1, "large length": 1, "large filtered": 2}; !maps.Equal(got, want) {
		t.Errorf("stops %v, want %v", got, want)
	}
}

// newEnv has a model for each agent, by the agent's name, and the tool read_log.
func newEnv(o metrics.Options) (*Env, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	rules := &policy.Rules{
		Agents: map[conversation.AgentName]policy.Profile{conversation.Coordinator: {Model: "large"}, "researcher": {Model: "small"}},
		Tools:  map[string]policy.ToolRule{"read_log": {}},
	}
	return &Env{Metrics: metrics.NewActors(metrics.With(registry, o)), Log: slog.New(slog.DiscardHandler), Rules: rules}, registry
}

// counts are the values of a counter's series that are not 0, and how often a histogram's
// have counted, by the values of their labels in the order of the labels' names.
func counts(t *testing.T, registry *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()) + m.GetGauge().GetValue(); n != 0 {
				got[strings.Join(values, " ")] = n
			}
		}
	}
	return got
}

// sums are what a histogram has summed up, by its labels' values.
func sums(t *testing.T, registry *prometheus.Registry, metric string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() == metric {
			for _, m := range family.GetMetric() {
				var values []string
				for _, l := range m.GetLabel() {
					values = append(values, l.GetValue())
				}
				got[strings.Join(values, " ")] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return got
}

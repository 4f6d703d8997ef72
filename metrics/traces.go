package metrics

import "github.com/prometheus/client_golang/prometheus"

// Traces are the collectors of what becomes of spans.
type Traces struct {
	Spans *prometheus.CounterVec // by outcome: exported, dropped
}

// NewTraces makes and registers them.
func NewTraces(r prometheus.Registerer) *Traces {
	f := newFactory(r, "parley_trace_")
	return &Traces{
		Spans: f.counters("spans_total", "Spans of traces, by outcome: exported (the collector took them), dropped (it could not be reached in time, or refused them, or too many waited for it).", "outcome=exported|dropped"),
	}
}

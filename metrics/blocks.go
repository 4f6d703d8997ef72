package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"
)

// Model are the collectors of one model, by the name of its block in the configuration. What
// a fallback of it has answered counts as its own.
type Model struct {
	Running     prometheus.Gauge    // calls that have begun and not ended
	FirstOutput prometheus.Observer // seconds from the start of a call to the first text, or to an answer without any

	calls   func(string) prometheus.Counter
	seconds func(string) prometheus.Observer
	stops   func(string) prometheus.Counter
	retries func(string) prometheus.Counter
	spent   *Bounded[spent]
	tenants *Bounded[string] // of all models
	none    *spent           // what is spent without a tenant; nil = the label is wanted
}

// modelOutcomes are the ends of a model call.
const modelOutcomes = "outcome=ok|cut|error|rate_limited|permanent|timeout|cancelled|panic"

func modelsOf(f factory, o Options, slow []float64, folded *prometheus.CounterVec) *Bounded[Model] {
	calls := f.counters("model_calls_total", "Model calls by outcome.", "model", modelOutcomes)
	seconds := f.histograms("model_call_duration_seconds", "Duration of model calls by outcome.", slow, "model", modelOutcomes)
	first := f.histograms("model_first_output_seconds", "Time from the start of a model call, with what it waits at the model's own limits, to the first text of the model, or to its answer if no text came before.", slow, "model")
	running := f.gauges("model_calls_running", "Model calls of steps that have begun and not ended; those that wait at a model's own limits are among them.", "model")
	stops := f.counters("model_stops_total", "Answers of models, by why they ended: end, length (at the limit of tokens), filtered (the provider withheld it, or its rest), refused (by the model itself).", "model", "reason=end|length|filtered|refused")
	retries := f.counters("model_retries_total", "Attempts after the first, by cause.", "model", "cause=error|interrupted|drain|moved")
	tokens := f.counters("model_tokens_total", "Tokens of model calls, by direction: input (with those from the provider's cache), output, cached. tenant is empty unless metrics.tenant_label is on.", "model", "direction=input|output|cached", "tenant")
	cost := f.counters("model_cost_total", "What model calls have cost, in the currency of the model's price; a model without one has no series. A call of a fallback counts at the price of the model that it stands in for.", "model", "tenant")
	most := o.MaxTenants
	if most <= 0 {
		most = maxTenants
	}
	tenants := bounded(most, folded.WithLabelValues("tenant"), func(name string) *string { return &name })
	return bounded(maxModels, folded.WithLabelValues("model"), func(name string) *Model {
		name = cmp.Or(name, o.DefaultModel)
		of := func(tenant string) *spent {
			s := &spent{
				price: o.Prices[name],
				input: tokens.WithLabelValues(name, "input", tenant), output: tokens.WithLabelValues(name, "output", tenant), cached: tokens.WithLabelValues(name, "cached", tenant),
			}
			if s.price != (Price{}) {
				s.cost = cost.WithLabelValues(name, tenant)
			}
			return s
		}
		m := &Model{
			FirstOutput: first.WithLabelValues(name),
			Running:     running.WithLabelValues(name),
			calls:       lazily(func(v string) prometheus.Counter { return calls.WithLabelValues(name, v) }),
			seconds:     lazily(func(v string) prometheus.Observer { return seconds.WithLabelValues(name, v) }),
			stops:       lazily(func(v string) prometheus.Counter { return stops.WithLabelValues(name, v) }),
			retries:     lazily(func(v string) prometheus.Counter { return retries.WithLabelValues(name, v) }),
		}
		if !o.TenantLabel {
			m.none = of("")
			return m
		}
		m.spent = &Bounded[spent]{most: most, make: of}
		m.tenants = tenants
		return m
	})
}

// Called counts a call that has ended.
func (m *Model) Called(outcome string, seconds float64, traceID string) {
	m.calls(outcome).Inc()
	Observe(m.seconds(outcome), seconds, traceID)
}

// Stopped counts an answer by why it has ended.
func (m *Model) Stopped(reason string) { m.stops(reason).Inc() }

// Retried counts an attempt after the first.
func (m *Model) Retried(cause string) { m.retries(cause).Inc() }

// Spent counts the tokens of a call for a tenant, and what they cost.
func (m *Model) Spent(tenant string, input, output, cached int) {
	s := m.none
	if s == nil {
		s = m.spent.Of(*m.tenants.Of(tenant))
	}
	s.input.Add(float64(input))
	s.output.Add(float64(output))
	s.cached.Add(float64(cached))
	if s.cost != nil {
		s.cost.Add(s.price.Cost(input, output, cached))
	}
}

// spent are the collectors of what a tenant spends on a model.
type spent struct {
	price                 Price
	input, output, cached prometheus.Counter
	cost                  prometheus.Counter // nil = the model has no price
}

// Tool are the collectors of one tool.
type Tool struct {
	Seconds prometheus.Observer
	calls   func(string) prometheus.Counter
}

// Called counts a call that has ended.
func (t *Tool) Called(outcome string, seconds float64, traceID string) {
	t.calls(outcome).Inc()
	Observe(t.Seconds, seconds, traceID)
}

func toolsOf(f factory, slow []float64, folded prometheus.Counter) *Bounded[Tool] {
	calls := f.counters("tool_calls_total", "Tool calls ended, by outcome. tool is unknown for names that models have made up, and caller for tools that the caller of a session runs.", "tool", "outcome=ok|error|timeout|cancelled|denied|unknown")
	seconds := f.histograms("tool_call_duration_seconds", "Duration of tool calls that have ended.", slow, "tool")
	return bounded(maxTools, folded, func(name string) *Tool {
		return &Tool{
			Seconds: seconds.WithLabelValues(name),
			calls:   lazily(func(v string) prometheus.Counter { return calls.WithLabelValues(name, v) }),
		}
	})
}

// Agent are the collectors of the delegations to one agent.
type Agent struct {
	Seconds prometheus.Observer
	ended   func(string) prometheus.Counter
}

// Ended counts a delegation that has ended.
func (a *Agent) Ended(outcome string, seconds float64, traceID string) {
	a.ended(outcome).Inc()
	Observe(a.Seconds, seconds, traceID)
}

func agentsOf(f factory, long []float64, folded prometheus.Counter) *Bounded[Agent] {
	ended := f.counters("delegations_total", "Delegations ended, by the agent that they went to and by outcome.", "agent", "outcome=ok|error|timeout|cancelled|denied|unknown|failed")
	seconds := f.histograms("delegation_duration_seconds", "Duration of delegations that have ended.", long, "agent")
	return bounded(maxTools, folded, func(name string) *Agent {
		return &Agent{
			Seconds: seconds.WithLabelValues(name),
			ended:   lazily(func(v string) prometheus.Counter { return ended.WithLabelValues(name, v) }),
		}
	})
}

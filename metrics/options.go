package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Options choose what is measured beside what always is. The zero value measures
// classic histograms, no tenants and no cost.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Options struct {
	// NativeHistograms keeps a native histogram beside the classic buckets of each one.
	NativeHistograms bool `key:"metrics.native_histograms"`

	TenantLabel bool `key:"metrics.tenant_label"`                    // tokens and cost of models have the label tenant
	MaxTenants  int  `key:"metrics.max_tenants" min:"1" max:"10000"` // names that it has; those that come later share "other"; 0 = 100

	Prices       map[string]Price // of models, by the configuration's name
	DefaultModel string           // which of them agents without one have: it is "" to the engine
}

// Defaults are the options of someone who says nothing.
func Defaults() Options { return Options{NativeHistograms: true, MaxTenants: maxTenants} }

// Price is what a million tokens of a model cost, in a currency that is the operator's to
// know. All of them 0: the model has no cost.
type Price struct {
	Input  float64 // of those that the provider had not in its cache
	Output float64
	Cached float64 // of those that it had; 0 = Input
}

// ReadPrice reads a price as the configuration has it: a table of numbers that are not
// negative. Without one it is zero.
func ReadPrice(table map[string]any) (Price, error) {
	var p Price
	for name, value := range table {
		into := map[string]*float64{"input": &p.Input, "output": &p.Output, "cached": &p.Cached}[name]
		n, ok := value.(float64)
		if whole, is := value.(int64); is {
			n, ok = float64(whole), true
		}
		if into == nil || !ok || !(n >= 0 && n <= 1e9) {
			return Price{}, errors.New("must be numbers from 0 to 1e9 for input, output and cached, such as { input = 2.5, output = 10.0, cached = 0.25 }")
		}
		*into = n
	}
	return p, nil
}

// Cost is what a call has cost.
func (p Price) Cost(input, output, cached int) float64 {
	fromCache := p.Cached
	if fromCache == 0 {
		fromCache = p.Input
	}
	return (float64(max(input-cached, 0))*p.Input + float64(cached)*fromCache + float64(output)*p.Output) / 1e6
}

const (
	maxTenants = 100
	maxTools   = 100 // names of tools, and of agents that are delegated to
	maxModels  = 100
)

// optioned is a registerer that knows the options of what is registered with it.
type optioned struct {
	prometheus.Registerer
	options Options
}

// With is r, for collectors that are made with the options.
func With(r prometheus.Registerer, o Options) prometheus.Registerer { return optioned{r, o} }

// optionsOf are the options that With has given to r.
func optionsOf(r prometheus.Registerer) Options {
	if known, ok := r.(optioned); ok {
		return known.options
	}
	return Options{}
}

// newFactory makes a factory whose collectors' names begin with prefix.
func newFactory(r prometheus.Registerer, prefix string) factory {
	return factory{promauto.With(r), r, prefix, optionsOf(r).NativeHistograms}
}

// The resolution of native histograms: each bucket is at most a tenth wider than the one
// before. One that has more than this many buckets widens them, and after an hour it may
// begin anew.
const (
	nativeFactor  = 1.1
	nativeBuckets = 160
	nativeReset   = time.Hour
)

// native adds a native histogram, if one is wanted.
func (f factory) native(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	if f.nativeToo {
		o.NativeHistogramBucketFactor = nativeFactor
		o.NativeHistogramMaxBucketNumber = nativeBuckets
		o.NativeHistogramMinResetDuration = nativeReset
	}
	return o
}

// Observe adds a value to a histogram. With a trace id it leaves an exemplar: a scrape in
// the OpenMetrics format says of a bucket which trace has fallen into it last.
func Observe(o prometheus.Observer, v float64, traceID string) {
	if traceID != "" {
		if known, ok := o.(prometheus.ExemplarObserver); ok {
			known.ObserveWithExemplar(v, prometheus.Labels{"trace_id": traceID})
			return
		}
	}
	o.Observe(v)
}

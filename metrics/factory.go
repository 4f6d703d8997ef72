package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A factory makes and registers the collectors of one room. Their names begin
// with prefix; those in the plural have labels.
type factory struct {
	promauto.Factory
	registerer prometheus.Registerer
	prefix     string
	nativeToo  bool // histograms are native as well
}

// A label is its name and, behind "=", the values that it can have: "result=ok|failed".
// Without values it holds names: of the configuration, or of what Bounded holds.
// docs/METRICS.md shows them.
func label(spec string) (name string, values []string) {
	name, list, closed := strings.Cut(spec, "=")
	if closed {
		values = strings.Split(list, "|")
	}
	return name, values
}

func labelNames(specs []string) []string {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i], _ = label(spec)
	}
	return names
}

// A describer is a registerer that wants to know what metrics mean: the one that writes
// docs/METRICS.md.
type describer interface {
	describe(name, kind, help string, labels []string)
}

func (f factory) described(name, kind, help string, labels ...string) string {
	if d, ok := f.registerer.(describer); ok {
		d.describe(f.prefix+name, kind, help, labels)
	}
	return f.prefix + name
}

func (f factory) counter(name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: f.described(name, "counter", help), Help: help})
}

// counters makes a counter with labels. Of one that has a single, closed label all series
// are there from the start, with 0: else the first thing that it counts is no increase.
func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := f.NewCounterVec(prometheus.CounterOpts{Name: f.described(name, "counter", help, labels...), Help: help}, labelNames(labels))
	if len(labels) == 1 {
		_, values := label(labels[0])
		for _, value := range values {
			v.WithLabelValues(value)
		}
	}
	return v
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	return f.NewGauge(prometheus.GaugeOpts{Name: f.described(name, "gauge", help), Help: help})
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.NewGaugeVec(prometheus.GaugeOpts{Name: f.described(name, "gauge", help, labels...), Help: help}, labelNames(labels))
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.NewHistogram(f.native(prometheus.HistogramOpts{Name: f.described(name, "histogram", help), Help: help, Buckets: buckets}))
}

func (f factory) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.NewHistogramVec(f.native(prometheus.HistogramOpts{Name: f.described(name, "histogram", help, labels...), Help: help, Buckets: buckets}), labelNames(labels))
}

package metrics

import "github.com/prometheus/client_golang/prometheus"

// rows is a collector of what others count: each scrape reads the rows anew and
// makes a series of every column. A row's labels come from the configuration.
type rows[T any] struct {
	read    func() []T
	labels  func(T) []string
	columns []column[T]
}

type column[T any] struct {
	described
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

// described is what docs/METRICS.md says of a metric.
type described struct {
	name, word, help string   // word is the type: counter, gauge, histogram
	labels           []string // as label reads them
}

func gaugeOf[T any](name, help string, value func(T) float64, labels ...string) column[T] {
	return columnOf(described{"parley_" + name, "gauge", help, labels}, prometheus.GaugeValue, value)
}

func counterOf[T any](name, help string, value func(T) int64, labels ...string) column[T] {
	return columnOf(described{"parley_" + name, "counter", help, labels}, prometheus.CounterValue, func(row T) float64 { return float64(value(row)) })
}

func columnOf[T any](d described, kind prometheus.ValueType, value func(T) float64) column[T] {
	return column[T]{d, prometheus.NewDesc(d.name, d.help, labelNames(d.labels), nil), kind, value}
}

// watch registers a collector of rows.
func watch[T any](r prometheus.Registerer, w *rows[T]) {
	if d, ok := r.(describer); ok {
		for _, column := range w.columns {
			d.describe(column.name, column.word, column.help, column.labels)
		}
	}
	r.MustRegister(w)
}

// Describe implements prometheus.Collector.
func (r *rows[T]) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range r.columns {
		ch <- c.desc
	}
}

// Collect implements prometheus.Collector.
func (r *rows[T]) Collect(ch chan<- prometheus.Metric) {
	for _, row := range r.read() {
		for _, c := range r.columns {
			ch <- prometheus.MustNewConstMetric(c.desc, c.kind, c.value(row), r.labels(row)...)
		}
	}
}

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
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func gaugeOf[T any](name, help string, value func(T) float64, labels ...string) column[T] {
	return column[T]{prometheus.NewDesc("parley_"+name, help, labels, nil), prometheus.GaugeValue, value}
}

func counterOf[T any](name, help string, value func(T) int64, labels ...string) column[T] {
	return column[T]{
		prometheus.NewDesc("parley_"+name, help, labels, nil), prometheus.CounterValue,
		func(row T) float64 { return float64(value(row)) },
	}
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

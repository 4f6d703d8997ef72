// Package metrics holds the name of every metric and nothing else: a small
// struct of collectors for each room, and the registry that they live in.
//
// Names start with parley_, use base units, and have closed label sets. No label
// ever holds a session, a user or a text.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry is a registry of our own, with the process, Go and build collectors.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

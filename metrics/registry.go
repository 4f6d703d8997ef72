package metrics

import (
	"cmp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build tells with every scrape which program this is. revision is the commit's; "" = it is
// not known.
func Build(r prometheus.Registerer, version, revision string) {
	newFactory(r, "parley_").gauges("build_info", "1, with the version of the program, the commit that it was built from, and the version of Go.", "version", "revision", "go").
		WithLabelValues(version, cmp.Or(revision, "unknown"), runtime.Version()).Set(1)
}

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

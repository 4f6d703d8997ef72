package metrics

import "github.com/prometheus/client_golang/prometheus"

// Log are the collectors of the program's own log.
type Log struct {
	Lines      *prometheus.CounterVec // written, by level
	Suppressed *prometheus.CounterVec // left out, by level
}

// NewLog makes and registers them.
func NewLog(r prometheus.Registerer) *Log {
	f := newFactory(r, "parley_log_")
	return &Log{
		Lines:      f.counters("lines_total", "Lines of the program's log that were written, by level.", "level=debug|info|warn|error"),
		Suppressed: f.counters("suppressed_total", "Lines of the program's log that were left out because the same message came more than log.repeat times in ten seconds, by level.", "level=warn|error"),
	}
}

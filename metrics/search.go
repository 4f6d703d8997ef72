package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Search are the collectors of searches in messages.
type Search struct {
	Searches *prometheus.CounterVec // by result: ok, part, busy, refused, failed
	Waiting  prometheus.Gauge       // that wait for a place
	Seconds  prometheus.Histogram
	Texts    prometheus.Histogram // looked at by one search
	LeftOut  prometheus.Counter   // sessions that could not be read

	Kept        prometheus.Counter // messages and parts taken into the index
	KeptBytes   prometheus.Counter // of their texts
	Sessions    prometheus.Counter // times that a session was looked at for the index
	Reached     prometheus.Gauge   // the activity of the last one
	Behind      prometheus.Gauge   // sessions that had gone on when it was looked last
	Complete    prometheus.Gauge   // 1: all sessions were looked at since the start
	BuildErrors prometheus.Counter
}

// NewSearch makes and registers them.
func NewSearch(r prometheus.Registerer) *Search {
	f := newFactory(r, "parley_search_")
	return &Search{
		Searches: f.counters("requests_total", "Searches in messages, by result: ok, part (it ended at a bound and has a cursor), busy (too many of its user's wait), refused, failed.", "result=ok|part|busy|refused|failed"),
		Waiting:  f.gauge("waiting", "Searches in messages that wait for a place."),
		Seconds:  f.histogram("duration_seconds", "Time that a search in messages took, with its wait for a place.", prometheus.ExponentialBuckets(0.001, 2.5, 12)),
		Texts:    f.histogram("texts_looked_at", "Messages and parts that one search has looked at; what was read in the log counts eight times.", prometheus.ExponentialBuckets(10, 4, 10)),
		LeftOut:  f.counter("sessions_left_out_total", "Times that a search went on without a session that cannot be read."),

		Kept:        f.counter("index_texts_total", "Messages and parts that were taken into the index."),
		KeptBytes:   f.counter("index_text_bytes_total", "Bytes of text that were taken into the index; with their words they take about twice as much on the disk."),
		Sessions:    f.counter("index_sessions_total", "Times that a session was brought up to its log in the index: after a start each one once, then those that go on."),
		Reached:     f.gauge("index_reached_timestamp_seconds", "When the session was active last that was taken into the index as the last one; what is behind it, searches read in the logs."),
		Behind:      f.gauge("index_behind_sessions", "Sessions that had gone on behind the index when it was looked last, at most 256; searches read them in their logs."),
		Complete:    f.gauge("index_complete", "1 when all sessions have been looked at since the start."),
		BuildErrors: f.counter("index_errors_total", "Times that the index could not be brought up to the logs, and was tried again."),
	}
}

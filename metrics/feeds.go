package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Feeds are the collectors of those who watch the feeds of chats.
type Feeds struct {
	Watches prometheus.Gauge       // open on this node
	Read    *prometheus.CounterVec // entries, by who has read them: shared, alone
	Errors  prometheus.Counter     // reads of the store that failed and are tried again
}

// NewFeeds makes and registers them.
func NewFeeds(r prometheus.Registerer) *Feeds {
	f := newFactory(r, "parley_feed_")
	return &Feeds{
		Watches: f.gauge("watches", "Watches of feeds of chats that are open on this node."),
		Read:    f.counters("entries_read_total", "Entries read from the store: once for all who watch (shared), or for one that is behind (alone).", "for"),
		Errors:  f.counter("read_errors_total", "Reads of the store that failed and were tried again."),
	}
}

// Webhooks are the collectors of webhooks. The label "webhook" is the name in the
// configuration.
type Webhooks struct {
	Sent     *prometheus.CounterVec   // entries that were taken
	Failed   *prometheus.CounterVec   // tries that came to nothing, by reason
	Retries  *prometheus.CounterVec   // tries after the first one of an entry
	Skipped  *prometheus.CounterVec   // entries that were given up
	Behind   *prometheus.GaugeVec     // entries that wait
	Age      *prometheus.GaugeVec     // seconds since the entry that is tried
	Ended    *prometheus.GaugeVec     // 1: the receiver has said that it is gone
	Delivery *prometheus.HistogramVec // seconds from what happened until it was taken
	Trimmed  prometheus.Counter       // entries dropped from feeds
}

// NewWebhooks makes and registers them.
func NewWebhooks(r prometheus.Registerer) *Webhooks {
	f := newFactory(r, "parley_webhook_")
	return &Webhooks{
		Sent:    f.counters("sent_total", "Entries of feeds that a webhook's receiver has taken.", "webhook"),
		Failed:  f.counters("failed_total", "Tries to send an entry that came to nothing, by reason.", "webhook", "reason"),
		Retries: f.counters("retries_total", "Tries to send an entry after the first one.", "webhook"),
		Skipped: f.counters("skipped_total", "Entries that were never taken and are too old to be tried again.", "webhook"),
		Behind:  f.gauges("waiting", "Entries that wait to be sent.", "webhook"),
		Age:     f.gauges("lag_seconds", "Age of the entry that is being sent; 0 = none is.", "webhook"),
		Ended:   f.gauges("gone", "1 when the receiver has answered that it is gone for good.", "webhook"),
		Delivery: f.histograms("delivery_duration_seconds", "Time from what has happened in a chat until a webhook's receiver has taken it.",
			prometheus.ExponentialBuckets(0.01, 2.5, 15), "webhook"),
		Trimmed: f.counter("feed_trimmed_total", "Entries that were dropped from feeds because of their age or number."),
	}
}

// Pushes are the collectors of notices that clients have asked for at an address of their own.
type Pushes struct {
	Open     prometheus.Gauge       // registrations that are served on this node
	Sent     prometheus.Counter     // notices that were taken
	Failed   *prometheus.CounterVec // tries that came to nothing, by reason
	Retries  prometheus.Counter     // tries after the first one of a notice
	Skipped  prometheus.Counter     // notices that were given up
	Ended    *prometheus.CounterVec // registrations that have ended, by reason
	Delivery prometheus.Histogram   // seconds from what happened until it was taken
}

// NewPushes makes and registers them.
func NewPushes(r prometheus.Registerer) *Pushes {
	f := newFactory(r, "parley_push_")
	return &Pushes{
		Open:    f.gauge("open", "Tasks of which this node tells an address that a client has registered."),
		Sent:    f.counter("sent_total", "Notices that a registered address has taken."),
		Failed:  f.counters("failed_total", "Tries to send a notice that came to nothing, by reason.", "reason"),
		Retries: f.counter("retries_total", "Tries to send a notice after the first one."),
		Skipped: f.counter("skipped_total", "Notices that were never taken and are too old to be tried again."),
		Ended:   f.counters("ended_total", "Registrations of which nothing more is sent, by reason.", "reason"),
		Delivery: f.histogram("delivery_duration_seconds", "Time from what has happened to a task until a registered address has taken it.",
			prometheus.ExponentialBuckets(0.01, 2.5, 15)),
	}
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Lists are the collectors of those who watch their lists of sessions.
type Lists struct {
	Watches prometheus.Gauge       // open on this node
	Sent    *prometheus.CounterVec // rows, by kind: row, gone
	Merged  prometheus.Counter     // changes of rows that were waiting already
	Rereads prometheus.Counter     // lists that were read again
	Errors  prometheus.Counter     // reads that failed and are tried again
}

// NewLists makes and registers them.
func NewLists(r prometheus.Registerer) *Lists {
	f := newFactory(r, "parley_list_")
	return &Lists{
		Watches: f.gauge("watches", "Watches of lists of sessions that are open on this node."),
		Sent:    f.counters("rows_sent_total", "Rows that watches were sent: row, or gone.", "kind"),
		Merged:  f.counter("rows_merged_total", "Changes of rows that still waited to be sent, and were joined with them."),
		Rereads: f.counter("rereads_total", "Times that a tenant's list was read again for its watches, because changes may have been missed."),
		Errors:  f.counter("read_errors_total", "Reads of rows that failed and were tried again."),
	}
}

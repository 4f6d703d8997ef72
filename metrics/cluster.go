package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Cluster are the collectors of a node of a cluster: what it knows of the others, and what
// crosses between them.
type Cluster struct {
	Members  prometheus.Gauge       // whose lease holds, as this node sees it
	Lease    prometheus.Gauge       // 1 while this node's own lease holds
	Renewals *prometheus.CounterVec // by outcome: ok, failed
	Changes  *prometheus.CounterVec // of the list of members: joined, left, died, draining
	Requests *prometheus.CounterVec // to sessions, by where they were sent (here, there) and how that ended (ok, refused, moved)
	Again    prometheus.Counter     // requests that were sent again because a session had moved
	Link     prometheus.Histogram   // seconds until another node answered
	Bytes    *prometheus.CounterVec // between nodes, by direction: in, out
	HandOver prometheus.Histogram   // seconds to give up sessions that belong to others

	Follows        *prometheus.GaugeVec   // sessions, by where: there (followed by clients here), here (by other nodes)
	FollowRenewals *prometheus.CounterVec // messages that say what is followed, by outcome: answered, lost, not_sent
	FollowGaps     *prometheus.CounterVec // of which something may have been missed, by what: events, text
	FollowMessages *prometheus.CounterVec // about followed sessions, by direction: in, out
	FollowBytes    *prometheus.CounterVec // of these messages, by direction
	FollowDropped  *prometheus.CounterVec // by reason: not_sent, unreadable, lease, stranger, replaced, silent

	Singletons *prometheus.GaugeVec // 1 while this node runs it, by singleton
}

// NewCluster makes the collectors and registers them with r; it panics if they are
// registered there already.
func NewCluster(r prometheus.Registerer) *Cluster {
	f := newFactory(r, "parley_cluster_")
	fast := prometheus.ExponentialBuckets(0.0001, 2, 16) // 0.1 ms to 3 s
	slow := prometheus.ExponentialBuckets(0.001, 2.5, 12)
	return &Cluster{
		Members:  f.gauge("members", "Members of the cluster whose lease holds, as this node sees it."),
		Lease:    f.gauge("lease_holds", "1 while this node's own lease holds; 0: it is suspended."),
		Renewals: f.counters("renewals_total", "Renewals of this node's lease, by outcome.", "outcome=ok|failed"),
		Changes:  f.counters("member_changes_total", "Changes of the list of members that this node has seen, by kind.", "kind=joined|left|died|draining"),
		Requests: f.counters("requests_total", "Requests to sessions, by where they were sent and how that ended.", "to", "outcome"),
		Again:    f.counter("requests_again_total", "Requests that were sent again because a session had moved."),
		Link:     f.histogram("link_duration_seconds", "Time until another node answered a request.", fast),
		Bytes:    f.counters("link_bytes_total", "Bytes between nodes, by direction.", "direction=in|out"),
		HandOver: f.histogram("hand_over_duration_seconds", "Time to give up the sessions that belong to other nodes.", slow),

		Follows:        f.gauges("follows", "Sessions that are followed at other nodes (there), and by other nodes here, every two seconds.", "where"),
		FollowRenewals: f.counters("follow_renewals_total", "Messages to other nodes that say what is followed there, by outcome.", "outcome"),
		FollowGaps:     f.counters("follow_gaps_total", "Followed sessions of which something may have been missed and is looked for, by what.", "of=events|text"),
		FollowMessages: f.counters("follow_messages_total", "Messages between nodes about followed sessions, by direction.", "direction"),
		FollowBytes:    f.counters("follow_bytes_total", "Bytes of the messages about followed sessions, by direction.", "direction"),
		FollowDropped:  f.counters("follow_dropped_total", "Messages and text of followed sessions not sent or not shown, by reason.", "reason"),

		Singletons: f.gauges("singleton_runs", "1 while this node runs the singleton; of all nodes at most one does.", "singleton"),
	}
}

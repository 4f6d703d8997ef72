package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Chats are the collectors of the channels to chat platforms. The label "channel" is the
// platform's name: slack, discord, telegram.
type Chats struct {
	Connected  *prometheus.GaugeVec     // 1 on the node that runs the channel; 0 between its tries to reach the platform
	Followed   *prometheus.GaugeVec     // chats that are shown what happens in their sessions
	Received   *prometheus.CounterVec   // updates, by kind: message, edit, deletion, button, left
	Duplicates *prometheus.CounterVec   // messages that the platform delivered again
	Refused    *prometheus.CounterVec   // updates that were not taken, by reason
	Commands   *prometheus.CounterVec   // by command and outcome: ok, refused
	Sent       *prometheus.CounterVec   // messages that the platform took
	Retries    *prometheus.CounterVec   // what is tried again: send, save, tell, follow, …
	Errors     *prometheus.CounterVec   // by what was done and the kind of trouble
	Uncertain  *prometheus.CounterVec   // messages that were perhaps sent twice, and say so
	Delivery   *prometheus.HistogramVec // seconds from an answer to the last of its messages in the chat
}

// NewChats makes and registers them.
func NewChats(r prometheus.Registerer) *Chats {
	f := newFactory(r, "parley_chat_")
	return &Chats{
		Connected:  f.gauges("connected", "1 on the node that runs the channel; 0 between its tries to reach the platform.", "channel"),
		Followed:   f.gauges("followed", "Chats that are shown what happens in their sessions.", "channel"),
		Received:   f.counters("updates_received_total", "Updates from platforms, by kind.", "channel", "kind"),
		Duplicates: f.counters("duplicates_total", "Messages that a platform delivered again.", "channel"),
		Refused:    f.counters("updates_refused_total", "Updates that were not taken, by reason.", "channel", "reason"),
		Commands:   f.counters("commands_total", "Commands, by name and outcome.", "channel", "command", "outcome"),
		Sent:       f.counters("messages_sent_total", "Messages that platforms have taken.", "channel"),
		Retries:    f.counters("retries_total", "What was tried again, by what.", "channel", "doing"),
		Errors:     f.counters("errors_total", "Errors of platforms, by what was done and the kind of trouble.", "channel", "doing", "trouble"),
		Uncertain:  f.counters("uncertain_total", "Messages that were perhaps sent twice, and say so.", "channel"),
		Delivery: f.histograms("delivery_duration_seconds", "Time from an answer to the last of its messages in the chat.",
			prometheus.ExponentialBuckets(0.005, 2, 15), "channel"),
	}
}

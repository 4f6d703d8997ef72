package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Sessions is what waits and runs in the sessions that are in memory, at one moment.
type Sessions struct {
	Waiting int     // accepted messages that no step has read
	Oldest  float64 // seconds that the oldest of them waits; 0 = none does
	Running int     // tasks that are RUNNING
	Tools   int     // tool calls that have begun and not ended

	Delegations int // the same

	Silence float64 // the longest time in seconds since anything became durable in a session with such a task; 0 = none runs
}

// Watch shows what waits and runs with every scrape. Engines of one process are watched one
// at a time: the last one counts.
func (a *Actors) Watch(read func() Sessions) { a.sessions.Store(&read) }

// newSessions shows what waits and runs. Before an engine is watched it shows zeros.
func newSessions(r prometheus.Registerer) *atomic.Pointer[func() Sessions] {
	now := &atomic.Pointer[func() Sessions]{}
	watch(r, &rows[Sessions]{
		read: func() []Sessions {
			if read := now.Load(); read != nil {
				return []Sessions{(*read)()}
			}
			return []Sessions{{}}
		},
		labels: func(Sessions) []string { return nil },
		columns: []column[Sessions]{
			gaugeOf("messages_waiting", "Accepted messages that no step has read yet, of the sessions in memory. One waits also while its session waits for a person's answer, for a slot, or for an outside runtime. A session with due work that left memory, or was there before a restart, is loaded again by the scan for due work, and counts again.",
				func(s Sessions) float64 { return float64(s.Waiting) }),
			gaugeOf("oldest_waiting_message_seconds", "Age of the oldest message of parley_messages_waiting; 0 = none waits.",
				func(s Sessions) float64 { return s.Oldest }),
			gaugeOf("tasks_running", "Tasks that are RUNNING in the sessions in memory, those of delegations and of outside runtimes included.",
				func(s Sessions) float64 { return float64(s.Running) }),
			gaugeOf("tool_calls_running", "Tool calls that have begun and not ended, of the sessions in memory.",
				func(s Sessions) float64 { return float64(s.Tools) }),
			gaugeOf("delegations_running", "Delegations that have begun and not ended, of the sessions in memory that wait for them.",
				func(s Sessions) float64 { return float64(s.Delegations) }),
			gaugeOf("task_longest_silence_seconds", "The longest time since anything became durable in a session whose task is RUNNING; 0 = none runs. A model call that streams is silent until its end.",
				func(s Sessions) float64 { return s.Silence }),
		},
	})
	return now
}

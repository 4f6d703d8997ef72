package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Actors are the collectors of the actors room: what sessions do.
type Actors struct {
	Commands      *prometheus.CounterVec   // by type and code ("ok", or the error's)
	Ack           prometheus.Histogram     // seconds from Tell to the positive answer of a send
	FirstPart     prometheus.Histogram     // seconds from a message's acknowledgement to the first part of its task
	CommitEvents  prometheus.Histogram     // events in one commit, also of one that fails then; the store counts those that do not
	CommitWaiters prometheus.Histogram     // commands answered by one commit
	Waiting       prometheus.Gauge         // commands taken and not answered yet
	WaitingBytes  prometheus.Gauge         // of their texts
	Active        prometheus.Gauge         // sessions in memory
	Activations   *prometheus.CounterVec   // by outcome
	Passivations  *prometheus.CounterVec   // by reason
	Load          prometheus.Histogram     // seconds to load a session
	Unreadable    prometheus.Gauge         // sessions that cannot be read because of what is stored of them
	Parts         *prometheus.CounterVec   // persisted parts by kind (partial, final)
	SourceParts   prometheus.Histogram     // parts of one source when its task ends
	Duplicates    *prometheus.CounterVec   // by command
	Recoveries    *prometheus.CounterVec   // what was found open after a load: step, call
	ModelCalls    *prometheus.CounterVec   // by outcome
	ModelSeconds  *prometheus.HistogramVec // by outcome
	ModelStops    *prometheus.CounterVec   // answers, by why they ended: end, length, filtered, refused
	ModelTokens   *prometheus.CounterVec   // by direction
	RequestTokens prometheus.Histogram     // estimated tokens of what models were shown
	CutRequests   prometheus.Counter       // requests of steps that were shown less than the whole conversation
	Titles        *prometheus.CounterVec   // titles that a model was asked for, by outcome
	Compactions   *prometheus.CounterVec   // summaries of conversations by outcome
	ToolCalls     *prometheus.CounterVec   // by outcome
	CallsRefused  *prometheus.CounterVec   // calls of an answer that a limit has refused, by limit
	Delegations   *prometheus.CounterVec   // ended, by outcome
	Depth         *prometheus.CounterVec   // started delegations, by depth
	Retries       *prometheus.CounterVec   // attempts after the first, by cause
	Nudges        prometheus.Counter
	Resolutions   *prometheus.CounterVec // by how, and by what evidence
	Dispositions  *prometheus.CounterVec // of accepted messages
	Modes         *prometheus.CounterVec // of accepted messages, as asked for
	Decisions     *prometheus.CounterVec // of steps, by decision
	Tasks         *prometheus.CounterVec // status changes, by new status
	TaskSteps     prometheus.Histogram   // steps of a task when it ends
	Questions     *prometheus.CounterVec // by what happened: opened, answered, default, expired, superseded, cancelled, refused
	QuestionAge   prometheus.Histogram   // seconds from opening to the answer
	Refusals      *prometheus.CounterVec // commands refused before the machine saw them, by limit
	AdmissionWait prometheus.Histogram   // seconds from wanting a slot to having it
	Slots         prometheus.Gauge       // in use
	SlotWaiters   prometheus.Gauge       // sessions that wait for a slot
	ClaimsWaiting prometheus.Gauge       // claims of outside runtimes that wait for a message
	ClaimWait     prometheus.Histogram   // seconds from a claim to its messages
	Runtimes      *prometheus.CounterVec // of outside runtimes, by what happened: handed_out, handed_out_again, renewed, read, alive, failed, lease_expired
	RuntimeErrors *prometheus.CounterVec // words of outside runtimes that were refused, by reason: generation, gap, ended
	Drains        *prometheus.CounterVec // sessions drained, by what became of their work
	FailedCommits *prometheus.CounterVec // by kind
	DueFound      prometheus.Counter     // sessions activated by the scan for due work
	DueScans      *prometheus.CounterVec // by outcome
	Erased        *prometheus.CounterVec // by reason
	Sweeps        *prometheus.CounterVec // sweeps for old sessions, by outcome: ok, put_off, clock_moved, stopped, failed
	Panics        prometheus.Counter     // recovered in sessions, models and tools
	Deltas        prometheus.Counter     // shown
}

// NewActors makes the collectors and registers them with r; it panics if they are
// registered there already.
func NewActors(r prometheus.Registerer) *Actors {
	f := factory{promauto.With(r), "parley_"}
	fast := prometheus.ExponentialBuckets(0.0005, 2, 15)     // 0.5 ms to 8 s
	slow := prometheus.ExponentialBuckets(0.01, 2.5, 12)     // 10 ms to 4 min
	long := prometheus.ExponentialBuckets(1, 4, 10)          // 1 s to 3 days
	counts := prometheus.ExponentialBuckets(1, 2, 11)        // 1 to 1,024
	tokens := prometheus.ExponentialBuckets(128, 2, 14)      // 128 to 1 million
	small := []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64} // parts, steps

	return &Actors{
		Commands:      f.counters("commands_total", "Commands taken by sessions, by type and answer code.", "type", "code"),
		Ack:           f.histogram("message_ack_duration_seconds", "Time from a message's arrival to its acknowledgement.", fast),
		FirstPart:     f.histogram("first_part_duration_seconds", "Time from a message's acknowledgement to the first part of its task.", slow),
		CommitEvents:  f.histogram("commit_events", "Events in one commit.", counts),
		CommitWaiters: f.histogram("commit_waiters", "Commands answered by one commit.", counts),
		Waiting:       f.gauge("commands_waiting", "Commands taken and not answered yet."),
		WaitingBytes:  f.gauge("commands_waiting_bytes", "Bytes of the texts of clients' commands that were taken and not answered yet."),
		Active:        f.gauge("sessions_active", "Sessions in memory."),
		Activations:   f.counters("session_activations_total", "Sessions loaded into memory, by outcome.", "outcome"),
		Passivations:  f.counters("session_passivations_total", "Sessions that left memory, by reason.", "reason"),
		Unreadable:    f.gauge("sessions_unreadable", "Sessions that could not be read because of what is stored of them: damage, or a newer version."),
		Load:          f.histogram("session_load_duration_seconds", "Time to load a session.", fast),
		Parts:         f.counters("parts_total", "Parts persisted, by kind.", "kind"),
		SourceParts:   f.histogram("source_parts", "Parts of one source when its task ends.", small),
		Duplicates:    f.counters("duplicates_total", "Commands that had taken effect before, by type.", "type"),
		Recoveries:    f.counters("recoveries_total", "Work found open when a session was loaded, by kind.", "kind"),
		ModelCalls:    f.counters("model_calls_total", "Model calls by outcome.", "outcome"),
		ModelSeconds:  f.histograms("model_call_duration_seconds", "Duration of model calls by outcome.", slow, "outcome"),
		ModelStops:    f.counters("model_stops_total", "Answers of models, by why they ended: end, length (at the limit of tokens), filtered (the provider withheld it, or its rest), refused (by the model itself).", "reason"),
		ModelTokens:   f.counters("model_tokens_total", "Tokens of model calls, by direction.", "direction"),
		CutRequests:   f.counter("model_requests_cut_total", "Requests of steps from which entries were left out, at context.budget or a model's context."),
		RequestTokens: f.histogram("model_request_tokens", "Estimated tokens of a step's request: prompt, tools and transcript.", tokens),
		Titles:        f.counters("titles_total", "Titles of sessions that a model was asked for (titles.model), by outcome.", "outcome"),
		Compactions:   f.counters("compactions_total", "Summaries of conversations, by outcome.", "outcome"),
		ToolCalls:     f.counters("tool_calls_total", "Tool calls ended, by outcome.", "outcome"),
		CallsRefused:  f.counters("calls_refused_total", "Calls of a model's answer that a limit has refused, by limit.", "limit"),
		Delegations:   f.counters("delegations_total", "Delegations ended, by outcome.", "outcome"),
		Depth:         f.counters("delegations_started_total", "Delegations started, by depth.", "depth"),
		Retries:       f.counters("model_retries_total", "Attempts after the first, by cause.", "cause"),
		Nudges:        f.counter("coverage_nudges_total", "Reminders of messages that were read and not answered."),
		Resolutions:   f.counters("messages_resolved_total", "Messages resolved, by how, and those answered by what evidence.", "how", "evidence"),
		Dispositions:  f.counters("messages_accepted_total", "Messages accepted, by disposition.", "disposition"),
		Modes:         f.counters("message_modes_total", "Messages accepted, by the mode their author asked for.", "mode"),
		Decisions:     f.counters("decisions_total", "Decisions of steps.", "decision"),
		Tasks:         f.counters("task_status_total", "Status changes of tasks, by new status.", "status"),
		TaskSteps:     f.histogram("task_steps", "Steps of a task when it ends.", small),
		Questions:     f.counters("questions_total", "Questions, by what happened to them.", "event"),
		QuestionAge:   f.histogram("question_age_seconds", "Time from a question to its answer.", long),
		Refusals:      f.counters("refusals_total", "Commands refused at the door, by limit.", "limit"),
		AdmissionWait: f.histogram("admission_wait_seconds", "Time that a task waited for a slot.", slow),
		Slots:         f.gauge("admission_slots_in_use", "Root tasks that are RUNNING."),
		SlotWaiters:   f.gauge("admission_waiters", "Sessions that wait for a slot."),
		ClaimsWaiting: f.gauge("runtime_claims_waiting", "Claims of outside runtimes that wait for a message."),
		ClaimWait:     f.histogram("runtime_claim_wait_seconds", "Time from a claim to its messages, of claims that got some.", slow),
		Runtimes:      f.counters("runtime_events_total", "What happened between outside runtimes and messages: handed_out, handed_out_again (after a failure or the end of a lease), renewed (the same hand-out), read, alive, failed, lease_expired.", "event"),
		RuntimeErrors: f.counters("runtime_refusals_total", "Parts and words of outside runtimes that were refused, by reason: generation, gap, ended.", "reason"),
		Drains:        f.counters("drained_sessions_total", "Sessions drained, by what became of their work.", "outcome"),
		FailedCommits: f.counters("failed_commits_total", "Commits that failed, by kind.", "kind"),
		DueFound:      f.counter("due_activations_total", "Sessions activated by the scan for due work."),
		DueScans:      f.counters("due_scans_total", "Scans for due work, by outcome.", "outcome"),
		Sweeps:        f.counters("retention_sweeps_total", "Sweeps for sessions older than retention.max_age, by outcome; put_off and clock_moved have erased nothing.", "outcome"),
		Erased:        f.counters("sessions_erased_total", "Sessions erased, by reason.", "reason"),
		Panics:        f.counter("panics_total", "Panics recovered in sessions, models and tools."),
		Deltas:        f.counter("deltas_total", "Pieces of streamed text shown."),
	}
}

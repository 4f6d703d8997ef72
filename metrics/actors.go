package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Actors are the collectors of the actors room: what sessions do.
type Actors struct {
	Commands      *prometheus.CounterVec // by type and code ("ok", or the error's)
	Ack           prometheus.Histogram   // seconds from Tell to the positive answer of a send
	FirstPart     prometheus.Histogram   // seconds from a message's acknowledgement to the first part of its task
	CommitEvents  prometheus.Histogram   // events in one commit, also of one that fails then; the store counts those that do not
	CommitWaiters prometheus.Histogram   // commands answered by one commit
	Waiting       prometheus.Gauge       // commands taken and not answered yet
	WaitingBytes  prometheus.Gauge       // of their texts
	Active        prometheus.Gauge       // sessions in memory
	Activations   *prometheus.CounterVec // by outcome
	Passivations  *prometheus.CounterVec // by reason
	Load          prometheus.Histogram   // seconds to load a session
	Unreadable    prometheus.Gauge       // sessions that cannot be read because of what is stored of them
	Parts         *prometheus.CounterVec // persisted parts by kind (partial, final)
	SourceParts   prometheus.Histogram   // parts of one source when its task ends
	Duplicates    *prometheus.CounterVec // by command
	Recoveries    *prometheus.CounterVec // what was found open after a load: step, call
	RequestTokens prometheus.Histogram   // estimated tokens of what models were shown
	CutRequests   prometheus.Counter     // requests of steps that were shown less than the whole conversation
	Titles        *prometheus.CounterVec // titles that a model was asked for, by outcome
	Triages       *prometheus.CounterVec // orders of waiting messages that a model was asked for, by outcome
	Compactions   *prometheus.CounterVec // summaries of conversations by outcome
	CallsRefused  *prometheus.CounterVec // calls of an answer that a limit has refused, by limit
	Depth         *prometheus.CounterVec // started delegations, by depth
	Nudges        *prometheus.CounterVec
	Resolutions   *prometheus.CounterVec // by how, and by what evidence
	Promises      *prometheus.CounterVec // messages of users, by what became of the promise of an answer
	Dispositions  *prometheus.CounterVec // of accepted messages
	Modes         *prometheus.CounterVec // of accepted messages, as asked for
	Decisions     *prometheus.CounterVec // of steps, by decision
	Tasks         *prometheus.CounterVec // status changes, by new status
	Cancels       *prometheus.CounterVec // tasks that somebody had cancelled, by who
	Steps         *prometheus.CounterVec // ended, by outcome
	Responses     *prometheus.CounterVec // last parts of tasks, by kind
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

	CommandSeconds func(name string) prometheus.Observer   // seconds from taking a command of that name to its answer
	Mailbox        prometheus.Histogram                    // commands that wait when one was worked off
	Told           func(by string) prometheus.Observer     // seconds from a message's acceptance to the first thing that its author sees of it: part, question, receipt
	Resolved       func(how string) prometheus.Observer    // seconds from a message's acceptance to its receipt
	TaskSeconds    func(status string) prometheus.Observer // seconds from a task's birth to its end
	Models         *Bounded[Model]                         // by the configuration's name
	Tools          *Bounded[Tool]                          // by name
	Agents         *Bounded[Agent]                         // delegations, by the agent that they go to

	sessions *atomic.Pointer[func() Sessions]
}

// The values of labels that several metrics have.
const (
	commandTypes = "type=create|send|answer|reply|edit|withdraw|move|cancel|update|close|seen|mark|clear|add_part|hand_out|runtime_says|tell|recovered|tick|slot_granted|drain|model_answered|model_failed|model_stopped|triaged|tool_done|tool_asks|tool_ask_ends|delegation_asked|delegation_questions|delegation_question_closed|delegation_done|compacted|view|wake"
	resolutions  = "how=answered|merged|dismissed|withdrawn|cancelled|failed|unanswered"
	codes        = "code" // ok, or a code of docs/PROTOCOL.md
)

// NewActors makes the collectors and registers them with r; it panics if they are
// registered there already.
func NewActors(r prometheus.Registerer) *Actors {
	f := newFactory(r, "parley_")
	// The promise that prometheus/rules.yml computes needs a bucket that ends at 100 ms.
	fast := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	slow := []float64{.01, .025, .1, .25, .5, 1, 2.5, 5, 15, 30, 60, 240}
	long := prometheus.ExponentialBuckets(1, 4, 10)          // 1 s to 3 days
	counts := prometheus.ExponentialBuckets(1, 2, 11)        // 1 to 1,024
	tokens := prometheus.ExponentialBuckets(128, 2, 14)      // 128 to 1 million
	small := []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64} // parts, steps

	folded := f.counters("metrics_folded_total", "Values that were counted under the label value \"other\", because the label has no place for more names.", "label=tenant|tool|agent|model")
	a := &Actors{
		Commands:      f.counters("commands_total", "Commands taken by sessions, by type and answer code.", commandTypes, codes),
		Ack:           f.histogram("message_ack_duration_seconds", "Time from a message's arrival to its acknowledgement.", fast),
		FirstPart:     f.histogram("first_part_duration_seconds", "Time from a message's acknowledgement to the first part of its task.", slow),
		CommitEvents:  f.histogram("commit_events", "Events in one commit.", counts),
		CommitWaiters: f.histogram("commit_waiters", "Commands answered by one commit.", counts),
		Waiting:       f.gauge("commands_waiting", "Commands taken and not answered yet."),
		WaitingBytes:  f.gauge("commands_waiting_bytes", "Bytes of the texts of clients' commands that were taken and not answered yet."),
		Active:        f.gauge("sessions_active", "Sessions in memory."),
		Activations:   f.counters("session_activations_total", "Sessions loaded into memory, by outcome.", "outcome=ok|absent|owned|failed"),
		Passivations:  f.counters("session_passivations_total", "Sessions that left memory, by reason.", "reason=idle|drained|absent|owned|failed|fenced|unloadable|erased|panic|halt"),
		Unreadable:    f.gauge("sessions_unreadable", "Sessions that could not be read because of what is stored of them: damage, or a newer version."),
		Load:          f.histogram("session_load_duration_seconds", "Time to load a session.", fast),
		Parts:         f.counters("parts_total", "Parts persisted, by kind.", "kind=partial|final|promoted"),
		SourceParts:   f.histogram("source_parts", "Parts of one source when its task ends.", small),
		Duplicates:    f.counters("duplicates_total", "Commands that had taken effect before, by type.", commandTypes),
		Recoveries:    f.counters("recoveries_total", "Work found open when a session was loaded, by kind.", "kind=step|call"),
		CutRequests:   f.counter("model_requests_cut_total", "Requests of steps from which entries were left out, at context.budget or a model's context."),
		RequestTokens: f.histogram("model_request_tokens", "Estimated tokens of a step's request: prompt, tools and transcript.", tokens),
		Titles:        f.counters("titles_total", "Titles of sessions that a model was asked for (titles.model), by outcome.", "outcome=ok|empty|failed"),
		Triages:       f.counters("triages_total", "Orders of waiting messages that a model was asked for (inbox.triage_agent), by outcome; empty has changed nothing.", "outcome=ok|empty|failed"),
		Compactions:   f.counters("compactions_total", "Summaries of conversations, by outcome.", "outcome=ok|failed|empty|stopped"),
		CallsRefused:  f.counters("calls_refused_total", "Calls of a model's answer that a limit has refused, by limit.", "limit=tools.max_parallel|delegation.max_parallel"),
		Depth:         f.counters("delegations_started_total", "Delegations started, by depth.", "depth"),
		Nudges:        f.counters("coverage_nudges_total", "Model calls about messages that were read and not answered, by what they ask: what became of several (closing, or judged by another model), for an answer to one alone, or whether they answer a question.", "form=closing|judged|alone|question"),
		Resolutions:   f.counters("messages_resolved_total", "Messages resolved, by how, and those answered by what evidence.", resolutions, "evidence=|named|only|asked|words|seen|judged"),
		Promises:      f.counters("message_promises_total", "Messages of users, each counted once: kept, late (its author saw nothing of it for 60 s: no part, no question, no receipt), failed (in time, but its receipt says failed or unanswered). Messages within delegations are none.", "promise=kept|late|failed"),
		Dispositions:  f.counters("messages_accepted_total", "Messages accepted, by disposition.", "disposition=started|queued|joined|answered"),
		Modes:         f.counters("message_modes_total", "Messages accepted, by the mode their author asked for.", "mode=default|steer|queue|collect|interrupt|reject"),
		Decisions:     f.counters("decisions_total", "Decisions of steps.", "decision=ANSWER|ASK|DELEGATE|TOOL"),
		Tasks:         f.counters("task_status_total", "Status changes of tasks, by new status.", "status=QUEUED|RUNNING|AWAITING_RESPONSE|COMPLETE|ERROR|CANCELLED"),
		Cancels:       f.counters("task_cancels_total", "Cancels of tasks that have begun, by who or what has asked for it: a user, a message with the mode interrupt, an error, the parent session.", "by=user|interrupt|error|parent"),
		Steps:         f.counters("steps_total", "Steps that have ended, by outcome: unknown is one that may have acted before a crash or its time limit.", "outcome=ok|error|cancelled|unknown"),
		Responses:     f.counters("responses_total", "Last parts of tasks, by kind: plain, error (the engine says that it failed), limit (of task.max_steps), empty (the model had nothing to say).", "kind=plain|error|limit|empty"),
		TaskSteps:     f.histogram("task_steps", "Steps of a task when it ends.", small),
		Questions:     f.counters("questions_total", "Questions, by what happened to them.", "event=opened|answered|default|expired|superseded|cancelled|refused"),
		QuestionAge:   f.histogram("question_age_seconds", "Time from a question to its answer.", long),
		Refusals:      f.counters("refusals_total", "Commands refused at the door, by limit.", "limit=session_bytes|session_waiting|session_pending|storage|admission|views|stopping|suspended"),
		AdmissionWait: f.histogram("admission_wait_seconds", "Time that a task waited for a slot.", slow),
		Slots:         f.gauge("admission_slots_in_use", "Root tasks that are RUNNING."),
		SlotWaiters:   f.gauge("admission_waiters", "Sessions that wait for a slot."),
		ClaimsWaiting: f.gauge("runtime_claims_waiting", "Claims of outside runtimes that wait for a message."),
		ClaimWait:     f.histogram("runtime_claim_wait_seconds", "Time from a claim to its messages, of claims that got some.", slow),
		Runtimes:      f.counters("runtime_events_total", "What happened between outside runtimes and messages: handed_out, handed_out_again (after a failure or the end of a lease), renewed (the same hand-out), read, alive, failed, lease_expired.", "event=handed_out|handed_out_again|renewed|read|alive|failed|lease_expired"),
		RuntimeErrors: f.counters("runtime_refusals_total", "Parts and words of outside runtimes that were refused, by reason: generation, gap, ended.", "reason=generation|gap|ended"),
		Drains:        f.counters("drained_sessions_total", "Sessions drained, by what became of their work.", "outcome=idle|parked|stopped"),
		FailedCommits: f.counters("failed_commits_total", "Commits that failed, by kind.", "kind=unknown|unclear|full|fenced|erased|duplicate|conflict|unread|closed|feature"),
		DueFound:      f.counter("due_activations_total", "Sessions activated by the scan for due work."),
		DueScans:      f.counters("due_scans_total", "Scans for due work, by outcome.", "outcome"),
		Sweeps:        f.counters("retention_sweeps_total", "Sweeps for sessions older than retention.max_age, by outcome; put_off and clock_moved have erased nothing.", "outcome=ok|put_off|clock_moved|stopped|failed"),
		Erased:        f.counters("sessions_erased_total", "Sessions erased, by reason.", "reason"),
		Panics:        f.counter("panics_total", "Panics recovered in sessions, models and tools."),
		Mailbox:       f.histogram("session_mailbox_depth", "Commands that waited in a session's mailbox when one was worked off: those behind it, and those that came meanwhile.", append([]float64{0}, counts...)),
		Deltas:        f.counter("deltas_total", "Pieces of streamed text shown."),
	}
	a.CommandSeconds = observers(f.histograms("command_duration_seconds", "Time from taking a command to its answer, by type; commands of the session itself have none.", fast, commandTypes))
	a.Told = observers(f.histograms("message_told_seconds", "Time from a message's acceptance to the first thing that its author sees of it: a part, a question, or its receipt; within delegations nobody waits. A message that was read before its session left memory is left out.", slow, "by=part|question|receipt"))
	a.Resolved = observers(f.histograms("message_resolved_seconds", "Time from a message's acceptance to its receipt, by how; not within delegations. A message that was read before its session left memory is left out.", slow, resolutions))
	a.TaskSeconds = observers(f.histograms("task_duration_seconds", "Time from a task's birth to its end, with its waits for a slot and for answers.", slow, "status=COMPLETE|ERROR|CANCELLED"))
	a.Models = modelsOf(f, optionsOf(r), slow, folded)
	a.Tools = toolsOf(f, slow, folded.WithLabelValues("tool"))
	a.Agents = agentsOf(f, long, folded.WithLabelValues("agent"))
	a.sessions = newSessions(r)
	return a
}

// observers are the children of a histogram with one label, whose values are a closed set.
func observers(v *prometheus.HistogramVec) func(value string) prometheus.Observer {
	return lazily(func(value string) prometheus.Observer { return v.WithLabelValues(value) })
}

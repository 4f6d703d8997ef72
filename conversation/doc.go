// Package conversation holds the words of parley: ids, messages, commands,
// events, effects, views, policies and errors, and the interfaces of what the
// core needs from others (Store, Model, Tool, Publisher).
//
// The words have no behaviour beyond their own meaning. The rules by which a
// session lives are in conversation/machine; what a model is shown is in
// conversation/transcript; how a stored log is read for clients is in
// conversation/readmodel. None of these packages reads a clock, draws a random
// number, starts a goroutine or does I/O: time, free slots and what the store knows
// arrive with each command. This package imports the standard library only.
//
// # The life of a message
//
// A user says something. The gateway turns it into a Say and hands it to the
// session's shell, which is an actor: it takes one command after the other.
//
//	Say ──▶ Decide ──▶ message_accepted, task_status RUNNING, step_started
//
// The machine accepts the message, finds that no task runs, makes one of it, and
// opens the task's first step. These are three events of one decision. Each was
// applied to the state as it was decided. Nothing of it is visible outside yet.
//
//	Commit{events, keys, rows, summary, wake-up} ──▶ Store ──▶ durable
//
// The shell stores them as one record. Now the sender gets the Receipt: the server
// has taken charge of the message; every screen that follows the session gets
// the events; and the machine hands out the effect that waited for this:
//
//	Durable(3) ──▶ AskModel{step 1, attempt 1}
//
// The shell shows the model a Request, made from the transcript. Text that streams
// is shown as Deltas, which are not stored. The whole answer comes back by the
// same mailbox, as a command:
//
//	ModelAnswered ──▶ Decide ──▶ step_finished, response, message_resolved, task_status COMPLETE
//
// The answer is a part that names the message, the message is resolved as
// answered, and the task ends: one decision, one commit. When that is durable, the
// answer is. A part replaces the draft that was streamed.
//
// Instead of text the model may have asked something (Asked: the task waits for a
// command that answers), called a tool (ToolStarted: durable before the tool runs;
// its result comes back as ToolDone), or given a part of the work to another agent
// (DelegationStarted: the shell sends it to another session with the same machine).
// Then the task goes on with another step. A message that arrives meanwhile is
// accepted at once and read by the next step. Whatever happens, each accepted
// message is resolved exactly once (MessageResolved).
//
// # The duties of the shell
//
// Decide and Apply are pure, so their caller keeps the promises. The caller of a
// machine.Session must, in this order:
//
//  1. Load. Acquire the session from the Store: that makes it the only writer. Make
//     the machine with machine.Restore from the snapshot, or with machine.New, and
//     Apply every event behind it. If the session exists, Decide(Recovered) before
//     anything else, and make that durable before another command is decided.
//
//  2. Decide, one command at a time. Bring the clock, and whether a task may become
//     RUNNING. Ask the store first for the keys of LookupKeys, and give the command
//     the hint of what it has found (dedup.Of, dedup.With); if there is a PartBefore
//     and nothing was found, the hint of dedup.NextPart (dedup.Follow). A command is
//     never decided twice: what it does the second time is a decision, too.
//
//  3. At once: do what Decided.Release says, and make the count of slots agree with
//     Standing. Releasing effects only stop something; no failure can make that
//     wrong.
//
//  4. Commit. Store Events with their Keys and Rows, Cursors, Summary and WakeAt, all
//     or nothing, in the order in which they were decided. While a commit is on its
//     way further commands may be decided; their events go with the next one.
//
//  5. When it is durable, and not before: answer the senders (also of commands
//     without events: an answer depends on everything decided before it), publish
//     the events in order, call Durable with the last durable seq and do what it
//     hands out.
//
//  6. On failure forget everything. A commit that failed, or whose outcome stays
//     unknown, leaves a machine that is ahead of its log: stop what runs, answer all
//     who wait with an error that may be retried, throw the Session away, and load
//     it again. The log alone is true.
//
// A session that is not loaded must be loaded when its WakeAt has come; a loaded
// one gets a Tick at NextTick; one that is not Busy may leave memory. Results of
// model calls, tools and delegations are commands like any other. They may come
// late, twice, or never (a deadline ends what never answers).
//
// # The words
//
// A session is one conversation: a log of events, numbered by Seq from 1 without
// gaps. A sub-session is the session of a delegation; its id is the parent's with
// "/" and the call.
//
// A command is an input (Command). Commands come from clients, from other
// sessions, from the shell itself, and from what it has started.
//
// An event records something that has happened (Event). Events are the only thing that changes a
// session, the only thing that is stored of it, and what clients are shown.
//
// An effect is work to be done because of events (Effect): effects that start or
// send something wait for the commit, effects that only stop something do not.
//
// A message goes to a session; a part is one message of its assistant. A task
// is one run of the agent, started by its trigger message; a step is one model call
// of it, an attempt one try of a step. A question waits for an answer of the user;
// a call is one use of a tool, or a delegation.
//
// A key makes a write happen once (Key): a message by its author and client id, a
// part by its source and index. An Epoch fences writers, a Cursor says how far a
// user has read, a Summary is a session's line in a list, a TaskRow a task's.
//
// # Where to read on
//
//   - id.go, message.go: what things are called and which states they have
//   - command.go, event.go, effect.go: the three closed sets; vocabulary.go lists them
//   - ready.go: Inputs and Decided, the contract of one decision
//   - view.go: a session as clients see it
//   - policy.go, agent.go: what can be configured, for all sessions or for one
//   - dedup.go: how a command is recognised that was delivered before
//   - store.go, model.go, tool.go, publisher.go: what the core needs from others
//   - error.go: refusals, with a code for programs and a sentence for people
//
// Then docs/MACHINE.md, which has the rules by number, and the transcripts in
// conversation/machine/testdata, which show each of them at work.
package conversation

// Package machine holds the rules by which a session lives: a pure machine that
// turns commands into events and effects. docs/MACHINE.md has the rules by number;
// each is shown by a transcript in testdata.
//
// A Session is made by New or Restore, and fed by Apply with the events of its log.
// Decide takes one command and says everything that follows from it
// (conversation.Decided); Durable hands out the effects whose events are stored.
// What the caller owes in return is listed in the documentation of package
// conversation, under "The duties of the shell".
//
// A Session is safe for one goroutine at a time and owns none. It reads no clock:
// it knows the time that the last command has brought. Nothing is decided by
// chance, and no order of a Go map reaches an event: the same log and the same
// commands give the same events.
//
// # How it is built
//
// The state, and Apply that alone changes it, are in internal/state. A decision
// lives for one Decide: it finds the rule for the command (decide.go), which emits
// events, each applied at once; then the settle rule (settle.go) brings every task
// to rest. The families of rules have a file each:
//
//   - inbox.go: messages are accepted, join a task, are edited, moved, taken back
//   - task.go, cancel.go: how tasks go on and end
//   - step.go, part.go: model calls, and what of their answers is shown
//   - question.go, toolquestion.go: asking, answering, approving
//   - call.go, delegation.go, subsession.go: tools, other agents, and being one
//   - coverage.go: what became of each message, and no message is forgotten
//   - external.go: sessions that a runtime outside of this server answers
//   - lifecycle.go: creating, changing, closing a session
//
// internal/plan checks what the calls of an answer ask for, and internal/receipts
// judges what its texts answer. Beside
// Decide the shell uses admission.go (before it), effects.go and standing.go (after
// it), recovery.go and tick.go (after a restart, and when time has passed).
package machine

// Package state is everything that a session remembers, and how events change it.
//
// State is changed by Apply and by nothing else: recovery is Apply over the
// stored events, live operation is Apply over the events that were just decided,
// and both end in the same state. The rules (package machine) read the fields and
// ask the questions that are methods here; a test keeps them from writing.
//
// A state holds what is open, and short excerpts; texts stay in the log. Its
// size does not grow with the length of the conversation. It is safe for one
// goroutine at a time, and owns none.
//
// The files: state.go has the types, the ids and the look-ups; apply.go begins
// Apply, whose parts stand with their family (inbox.go, task.go, step.go, part.go,
// question.go, call.go); dedup_window.go has the last client ids; log_ranges.go
// what of the log a transcript needs; view.go what is shown of a state.
package state

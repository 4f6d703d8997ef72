// Package transcript makes what a model is shown of a session from the session's
// events.
//
// A Transcript is a cache: it is fed with every event in order (Add) and can be
// rebuilt from the log at any time. Session.TranscriptRanges says what must be fed:
// the original request, which stays in view (Pin), the
// events of tasks that have not ended (AddOwn), and the newest events (Add). A live
// transcript and a rebuilt one show the same.
//
// Request makes the request of one step: the entries, the generated
// last entries (the open messages, the wish to wrap up), the tools. Entries are
// fixed when their step starts, so every attempt of a step is shown the same; a
// request that was given is never written to again. Every call is shown with its
// result, or with the word that it has none yet.
//
// Sizes are in tokens as tokens.Of estimates them. A request above
// context.budget is shown less, the oldest ended tasks first (budget.go). When the
// conversation is longer than context.threshold, Compaction plans a summary; the
// command that brings it back is conversation.Compacted (compaction.go).
// enginetools.go has the descriptions of the engine's own tools for models.
//
// A Transcript is safe for one goroutine at a time and owns none. The shell keeps
// one for each session whose model is asked often, and drops it when idle.
package transcript

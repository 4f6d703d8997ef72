// Package readmodel makes of a session's events what people and programs read:
// a page of the conversation ([History]), a task ([Task]), a call ([Call]), what
// became of one message ([Outcome]), and the receipt of a command that is repeated
// long after its first delivery ([CompleteReceipt], [RepeatedReply]).
//
// Each is a pure fold: make it, Add one event after the other in the order of
// their seq, read its fields. Events that mean nothing to a fold are ignored, so
// a caller may give it the whole log or only the part that matters; each says
// where it must begin. Folds do no I/O and start no goroutine; the caller reads
// the log. A fold keeps what it needs of an event, not the event, except Call.
//
// The rules here repeat what the machine decides, so a test of the machine folds
// every transcript with them and compares the result with the machine's own
// answers: an order of events that the machine changes and a fold does not know
// fails there.
package readmodel

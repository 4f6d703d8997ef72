// Package guard survives panics of what the engine is given: the publisher, the log.
//
// Neither may end a session or the process: who calls out there only tells
// something, and nobody waits for it. SafePublisher and SafeLog stand between the engine and
// the real ones, and do nothing else. GoOnAfterFailure keeps the actor of a session from
// what its own messages do.
//
// The package owns no goroutine.
package guard

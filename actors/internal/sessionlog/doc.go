// Package sessionlog reads sessions from the store and commits to them.
//
// Reading rebuilds what is kept in memory: the machine of a session from its
// snapshot and the events behind it, the transcript that models are shown, single
// events whose text no state holds. A snapshot that cannot be used costs time and
// nothing else.
//
// Commit ends with an answer that says what is stored. The store's own may not: an
// error of the disk or of the network leaves open whether a commit was written.
// Then the session is acquired again, on the condition that no other writer has
// done so, and its head tells.
//
// A Log serves all sessions of an engine, from any goroutine; its methods block, but
// Commit, which tells its end: nearly all commits end well, and none of those needs a
// goroutine that waits for it. The package owns no goroutine; Log.Go runs those of
// commits that did not go well.
package sessionlog

// Package persistencetest proves stores.
//
// Run is the suite that every conversation.Store passes: what a commit promises,
// what a crash may take away, what a reader sees. Memory is a Store in maps, for
// the tests of other packages. It passes the suite, too, and has faults that a test
// can ask for: commits that fail, commits that are written and reported as failed,
// a full disk, and a moment in which a call is held.
//
// Package clustertest has the suites of what several nodes share.
//
// Neither starts a goroutine that outlives a call. Memory may be used from any
// goroutine, and inside a testing/synctest bubble.
package persistencetest

// Package workers runs goroutines that are used again.
//
// A goroutine that has finished its task waits a while for the next one: mailboxes
// and model calls need deep stacks, and growing a new stack each time cost an
// eighth of a turn. The goroutine that finished last gets the next task, while
// its stack is still in the processor's cache; those that no task has needed for
// a second end.
//
// The engine makes one Pool. It gives it the work that sessions must not block
// for (Go) and the mailboxes of the session actors (Schedule), and counts the commits
// that the store works on (Begin, End). At the end it waits for the work, and calls
// Stop for the goroutines.
//
// The package owns the goroutines it starts and the timer of their sweep; both
// end after Stop.
package workers

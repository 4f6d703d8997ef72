// Package registry knows which sessions are in memory and delivers to them.
//
// Sub-sessions have actors of their own and live on the node of their root; a
// root with its sub-sessions is a tree, and trees can be reached as one.
//
// A message is put into the mailbox while the registry's lock is held, and an
// actor that wants to end takes itself out first (Leave) and then has itself
// poisoned. So every message that was delivered is either processed or seen by
// the ending actor, which hands it back (Return); none is lost in between.
//
// None overtakes another either: a session has one actor at a time. What is told to
// it while its actor ends waits, and its next actor is started when the last one has
// ended (Left): first with what that one has handed back, then with what has waited.
//
// An actor has the messages that it is started for before it reads its session: one
// that cannot be read ends at once, and what came behind that would have it read again.
//
// The engine makes one Registry, delivers through it and closes it at the end;
// session actors leave by themselves. Erasure blocks a tree while it is deleted. The
// package owns no goroutine.
package registry

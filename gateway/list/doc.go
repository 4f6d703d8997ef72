// Package list shows users what changes in their lists of sessions.
//
// [Board.Watch] begins a watch of one user, [Changes.Next] brings rows. A row is what
// GET /api/sessions says of the session, read from the store when it is sent: so it is whole,
// never older than a row before, and as the user sees the session then, or gone. Nothing is
// kept of a session that does not change.
//
// What has changed is told by the writers: [Board.Store] is the store for all who write on
// this node, and every commit and erasure that ends in it marks the session in the watches of
// those who may see it, or could before. That happens behind the commit and before its sender
// is answered; so a watch misses nothing that is committed after it has begun.
//
// A watch keeps the names of the sessions that have changed and were not sent yet, each once:
// a slow one costs no more than its list. The row of one session is sent once a second at
// most.
//
// The room owns no goroutine.
package list

// Package fanout is the way out of the engine: it brings what happens in
// sessions to all who follow them.
//
// The engine publishes to one [Hub] a node (Hub is a conversation.Publisher).
// The hub encodes each event once and puts the same bytes into the queues of
// all followers; a follower that has fallen behind, or has just come, reads the
// same bytes from the log. A [Subscription] is a cursor in one session's log
// that only moves forward: it shows each event exactly once and in order.
//
// What is published bears the epoch of the session's writer. The hub keeps the newest one
// of each followed session and drops what an older writer says, so a writer that another
// one has replaced shows nothing any more. The log has no epochs: a subscription that has read in it that
// an attempt is over shows no more text of that. On a node of a cluster the hub has an [Upstream],
// which brings what happens in sessions that live on other nodes.
//
// There is one way to follow a session, in two forms:
//
//   - [Hub.Subscribe] is for one session at a time: server-sent events,
//     requests that wait for an answer, chat platforms. [Subscription.Next]
//     brings events as values and as frames.
//   - [Hub.NewQueue], [Queue.NewSubscription] and [Subscription.Follow] are what
//     Subscribe is made of: a socket has one queue for its answers and for all
//     sessions that it follows.
//
// # Rules for callers
//
//   - One goroutine at a time takes from a queue ([Queue.Take] or
//     [Subscription.Next]), and also reads the log. Any goroutine may put something in.
//   - A subscription must be closed. Close may be called any number of times.
//   - To resume after a restart, keep the seq of the last event that was dealt
//     with and pass it as Options.Since. Seqs count within one log: when
//     conversation.View.Log is another than the one kept with the cursor, begin
//     again at 0.
//   - Putting something into a queue never blocks. A queue that is full does not
//     grow: its subscriptions go on from the log when there is room.
//
// # Locks and goroutines
//
// Lock order: a shard of the hub, then a queue or the Upstream. The hub is never called
// while a queue's lock is held. The package starts no goroutine: it runs in those of the
// engine, which publishes, and of the followers, which take.
package fanout

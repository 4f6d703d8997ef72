// Package relay lets clients follow sessions that live on other nodes.
//
// A [Relay] stands on both sides. For the clients of its node it is the upstream of the hub: it
// asks the owner of a followed session to be shown what happens there. For the sessions of
// its node it stands between the engine and the hub: it hands what is published to the
// other nodes that follow, encoded once for all of them.
//
// What crosses may be lost: a broken connection, an owner that dies, a session that moves, a
// line that is full. So each node tells each owner every [Interval], in one message, which
// sessions it follows and how far it knows them, and is told what it does not know. Whoever
// was not noted at the owner, or was noted at none, reads from the store how far the log goes;
// the hub's subscriptions read what they lack from the log.
//
// A session can be in the memory of a node although the ring gives it to another one: it has not
// been handed over yet, or two nodes see different rings. Until it has been quiet for a while
// a follower stays noted where it is; and who publishes a session of another one's says to that
// one how far it has got. A view is asked of the node that has the session in memory, as far as
// that is known: no other has the text that streams.
//
// # What is not shown
//
// Ephemeral things are shown by a node only while its own lease holds, by its own clock; they are
// taken only from a node that has answered a renewal within a lease, and the hub takes none of
// an epoch that is older than one it has seen. So nothing is shown of a writer that another one
// has replaced. When the writer changes, drafts that were streaming are dropped.
//
// # Order
//
// The answer to a command comes before the events of its commit. From one node both come on one
// way, in that order. What is known by another way, of the store or of a node that the session has
// come to, waits for the answers that clients of this node have not got yet (order.go).
//
// # Locks
//
// The hub calls Followed, Unfollowed and Typing under its own locks. The relay calls the hub and
// the engine without holding a lock of its own. Send must not block.
package relay

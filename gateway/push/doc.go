// Package push tells those who have asked for it what happens to a task, at an address of their
// own.
//
// A [Registration] is a row of the store (channel "push") that belongs to the task's session: it
// is there when the answer says so, outlives the node, and goes with the session. Where it sends,
// and by which proof, is sealed in it.
//
// [Pushes.Run] runs once in a cluster. It follows each task that is registered, as its user, by a
// [TaskSource], which makes [Notice]s of what happens, and posts them: in order, one at a time, and
// each at least once, under an id of its own that is the same when it comes again. The row is moved
// behind a notice when that was taken. Each registration has a goroutine, so a slow receiver
// delays nobody at another host; at its own, who shares the few connections to that may wait for
// it. Who registers wakes it; besides it looks through the rows every ten seconds.
//
// A notice that is not taken is tried again, ever less often, until it is too old. A registration
// ends with its task, when its user may not see that any more, when its receiver says that it is
// gone, and when its address leads where nothing may be sent, also where that was allowed before.
//
// Addresses are chosen by clients, so they lead only to hosts that the operator has named
// ([Rules]), and to public addresses of those unless private ones are allowed; on a server that
// nobody else can reach, to this machine.
package push

// Package checker kills a parley server under load and checks what it kept. It has
// the parts and the words of Jepsen:
//
//	client     performs operations in a session of its own, over one connection
//	           after the other (client.go)
//	operation  a command that a generator makes from a seed and from what is known
//	           of the session (generator.go)
//	history    the answers and events that a client got, across all connections
//	model      a session's state, event by event (model.go)
//	violation  an observation that the contract of the protocol does not allow
//
// Crash is the command: it starts the server, lets all clients perform operations,
// kills the server at a random moment, and does so again (crash.go). Then it lets
// all work end and compares histories, logs and side effects. The side effects are
// lines that a tool, which the server runs as a child process (Journal), appends
// to a file.
//
// A Swarm is clients of a cluster: they go from node to node, whether these live or not,
// and repeat what was not answered (swarm.go). They, too, find what was shown of an
// attempt that another node has replaced (passing.go), an answer of one node without
// what another one had acknowledged, and a task that a move has ended in ERROR.
//
// Each client runs in one goroutine, which ends with its connection.
package checker

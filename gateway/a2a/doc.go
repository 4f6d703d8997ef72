// Package a2a is a way in for clients that speak the Agent2Agent protocol (A2A) 1.0, over
// JSON-RPC and over HTTP+JSON. It shows them the sessions that all others see, over package
// exchange, and keeps nothing.
//
// A context of theirs is a session, and a task is a task, under its own id. A message without a
// task begins one; with a task that runs it steers that, and with one that waits it answers what
// was asked. The same message is taken once. Texts are artifacts, of which a stream tells the
// pieces; the last of a task is its answer. A tenant of theirs names an agent.
//
// Each event of a stream has the exchange's number as its id, and in its metadata, for clients
// that do not see ids. Who names the last one in Last-Event-ID is told the rest.
//
// How what the protocol has no word for is told is in docs/CLIENTS.md. The package starts no
// goroutine.
package a2a

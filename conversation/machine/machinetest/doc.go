// Package machinetest is an engine for tests: the real machine and the real
// transcript over a store, on one goroutine. Nothing in it answers a command by
// itself, so a test that uses it meets the rules of docs/MACHINE.md and no
// others.
//
// A World holds the sessions, one tree or many. Tell gives a session a command:
// the machine decides, the events are committed to the store, the sender is
// answered, the events are published, and what is to be done because of them
// waits. Rest does it: objectives go to sub-sessions, reports go up, answers go down.
// Model calls and tool calls are done by the hands Model and Tool; without a hand,
// or if it leaves them open, the test ends them with Session.Answer, Session.Fail,
// Session.Return, or lets the hand go on with Session.Go.
//
// The clock is World.Now. It moves only when the test says so: by Pace with each
// command, or by Pass. With the same commands the log is the same, byte for byte.
//
// Append writes events without a decision: for tests of code that reads a log.
//
// A World starts no goroutine and has no lock: one goroutine at a time may use
// it. Any goroutine may read from the store.
//
// It is used by the tests of the models, which drive a session by hand, and by
// gateway/gatewaytest, which puts it behind the interface that the gateway knows.
package machinetest

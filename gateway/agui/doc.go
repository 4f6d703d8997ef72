// Package agui is a way in for clients that speak the Agent-User Interaction protocol (AG-UI 1.0).
// It shows them the sessions that all others see, over package exchange, and keeps nothing.
//
// A thread is a session, by its id or by a name of the client's own. A run follows one message,
// and the task that has it: what its input brings becomes commands first (answers to interrupts,
// results of the client's own tools, what the user says), then the events of the run are made of
// the session's notes. An id of the client's is part of each command, so that the same input sent
// again takes effect once, and is followed again.
//
// The events of a run are a function of the notes alone, and each has the number of its note as
// the id of its server-sent event: a client that was cut off goes on behind the last one. The
// opening events of a stream (RUN_STARTED to parley.run) share one id, that of the last of them.
//
// A run ends with its stream, in words of the protocol, when its task has ended or waits: for
// answers (the outcome is interrupt) or for the client's own tools (it is success, and they are
// named). A stream that ends without such a word was cut off, and nothing has happened to the task.
//
// The goroutine of a request does what its input brings; the one that writes its answer follows.
package agui

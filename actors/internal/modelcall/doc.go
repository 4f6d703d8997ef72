// Package modelcall asks models, for the actor of a session that must not block.
//
// A Call is one attempt of a step. It streams: text is shown as drafts, the first
// at once and then every so often, and never after the call's end. The session
// gets the outcome as an *End, which is a command for its machine; for a call that
// it has stopped, it gets one when the model has returned. Once asks a question whose answer is not streamed:
// for the order of waiting messages, for a summary.
//
// A model may ignore its context. Neither the session nor the engine waits for
// such a call: a Call ends when the session's timer finds it Overdue, a question
// when its time is over; text that the model still sends is dropped.
//
// Env holds what calls need from the engine; there is one for all sessions. Each call
// and each question has one goroutine, started by Env.Go, and a call one timer
// while text waits to be shown.
package modelcall

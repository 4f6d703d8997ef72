// Package uistream is a way in for clients that speak the UI message stream of the AI SDK (the
// package ai), as useChat speaks it. It shows them the sessions that all others see, over package
// exchange, and keeps nothing: what a client is told is made of the log, and of what streams.
//
// A request becomes a command (act.go), and is answered with the message of the task that has it.
// A teller makes the chunks of that message out of the notes of the session, from the task's first
// event on, so that a message is the same live, told again, and loaded: a page that is loaded gets
// what the same chunks make together (message.go, history.go), by the rules of the SDK.
//
// Register adds the routes, which may be used from any goroutine. Each request runs in the HTTP
// library's goroutine, a stream in the one that writes its body; the package starts none.
package uistream

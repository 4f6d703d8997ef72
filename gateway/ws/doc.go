// Package ws serves WebSockets: it reads commands, asks the engine, and writes
// answers and what the client follows.
//
// [Sockets.Serve] runs one connection to its end in the caller's goroutine, which
// reads; it owns a second goroutine, which alone writes to the socket and reads the
// log for subscriptions that are behind, and jobs that complete an answer from the
// log. When Serve returns none of them runs any more. The engine's answers come on
// its own goroutines and only put frames into the queue.
//
// The package knows sockets as fasthttp/websocket; the upgrade from a route is the
// business of package gateway.
package ws

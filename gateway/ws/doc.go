// Package ws serves WebSockets: it reads commands, asks the engine, and writes
// answers and what the client follows.
//
// [Sockets.Start] gives a connection a goroutine, which reads until its end; it owns
// jobs that complete an answer from the log, and the writing to the socket, which a few
// goroutines do for all connections (senders.go). What has to wait for the client or
// for the log goes on in a goroutine of the connection's own. When the connection is
// not in service.Connections any more, none of them runs for it. The engine's answers
// come on its own goroutines and only put frames into the queue.
//
// The package knows sockets as fasthttp/websocket; the upgrade from a route is the
// business of package gateway.
package ws

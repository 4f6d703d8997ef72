// Package acp is a way in for clients that speak the Agent Client Protocol (ACP), by which editors talk to agents. It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
//
// The protocol is JSON-RPC 2.0, one message in each frame of the WebSocket at /acp. An editor
// starts "parley acp", which carries lines between it and that socket, and comes back when the
// server was away.
//
// A connection has a goroutine that reads ([door.Socket]), and one for each session that its
// client has opened. That one follows the session and does what the client wants there, one
// after the other, so that what it sends about the session is in order. All of it ends with
// the socket; what was asked goes on.
//
// What a client needs to go on behind a lost connection is in what it gets: each update has a
// cursor (_meta.parley.cursor), a question's request has an id that names the question, and a
// client that has a name of its own (initialize, _meta.parley.client) and names its prompts
// may send them again.
package acp

// Package gateway is the server in which clients meet conversations: WebSockets,
// HTTP and server-sent events in, commands to the engine; what happens in sessions
// out, to all who follow them.
//
// The package itself holds the server only: its addresses and life ([New],
// [Server.Run], [Server.Drain]), the checks of Host and Origin, the upgrade to a
// socket. The rest is in rooms: protocol (bytes), fanout (the way out of the engine),
// service (what all ways in share), ws, rest, web (the page). The engine is known as
// [Sessions]; the engine knows the gateway as a conversation.Publisher, the [Hub].
//
// Run owns one goroutine for each address. Each socket and stream has its own; Run
// returns when all of them have ended.
package gateway

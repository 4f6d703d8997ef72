// Package service holds what every way in (sockets, routes, chat platforms) shares:
//
//   - [Sessions], the engine as clients need it;
//   - [Principal], [Credential] and [Authenticator]: who speaks, and what they may;
//   - [Services], what a way in works with: limits, times, metrics, the hub, and the
//     rules that are the same everywhere: which session a client may name, which it
//     may see, which errors it gets, how a repeated command is answered from the
//     log;
//   - [Connections], all open sockets and streams, so that a drain reaches them.
//
// It knows nothing of HTTP and WebSockets and starts no goroutine. Each way in is a
// package that imports this one; ways in do not import each other.
package service

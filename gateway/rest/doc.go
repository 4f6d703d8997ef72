// Package rest is the HTTP side of the protocol: the table of routes, what is around
// every request (metrics, panics, problems), server-sent events, the page and the
// administration.
//
// [New] makes an [API], Register adds its routes to a router. Each request runs in
// the HTTP library's goroutine, an event stream in the one that writes its body. What
// may last (a stream, a request with ?wait) has a second goroutine, which notices that
// its client has gone and ends with it. Strings of a request outlive it only because the router is
// configured as immutable: they go to sessions.
package rest

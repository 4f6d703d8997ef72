// Package mcp is a way in for hosts of the Model Context Protocol (https://modelcontextprotocol.io):
// a server of it, over streamable HTTP at /mcp. Its tools say something in a session and wait for
// the answer, read a session, answer what is asked and end work; its resources are the sessions.
// docs/CLIENTS.md says what of parley is mapped, and how.
//
// The official SDK reads requests, checks them and writes results; the transport is ours, because
// nothing of a host is kept between its requests. Each request is a connection of the SDK that ends
// with its response. What a host has said of itself in older versions of the protocol comes back
// with each request, sealed in its MCP session id ([host]); where a host stopped in an answer comes
// back as the id of the last event that it has seen ([cursor]); which question a form was for is in
// the id of the form. So any node, and the process after this one, goes on with a host. Two things
// are kept in memory, and are lost without harm: which call a cancellation means ([calls]), and what
// a host has subscribed to before its stream began ([watches]).
//
// [Register] adds the routes. An answer that is whole at once is made in the goroutine of its
// request, and the SDK's own, which end with it. An answer that may take long is a stream: one
// goroutine writes it, one makes what is written, and one follows each session that is watched.
// All have ended when the stream has.
package mcp

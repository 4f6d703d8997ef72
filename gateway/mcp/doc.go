// Package mcp is a way in for hosts of the Model Context Protocol (https://modelcontextprotocol.io):
// a server of it, over streamable HTTP at /mcp, made with the official SDK. Its tools say
// something in a session and wait for the answer, read a session, answer what is asked and end
// work; its resources are the sessions. docs/CLIENTS.md says what of parley is mapped, and how.
//
// What a host does is always a request of its own, with the credential that came with it. The
// newest protocol has no sessions; of older ones the SDK keeps what a host has said of itself,
// in memory, and a host whose session is gone begins another one, as the protocol has it. Nothing
// of a conversation is in there: whatever is asked is made of the log.
//
// [Register] adds the route. A request runs in the SDK's own goroutine, since the handler is one of
// net/http; the goroutine of the HTTP library copies what it answers ([bridge]). A subscription to
// a resource is a goroutine, until it ends or its MCP session does.
package mcp

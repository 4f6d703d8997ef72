// Package mcp offers the tools of Model Context Protocol servers: programs that it starts,
// or streamable HTTP endpoints.
//
// cmd/parley calls Open once with the [[mcp]] blocks of the configuration, gives
// Servers.Tools to the engine, shows Servers.Status in doctor and metrics, and calls
// Close at the end.
//
// The tools of a run are those that the servers have when Open returns, and those that
// were never seen before and join later. A server may go and come back: meanwhile its
// tools answer that it is not connected. Descriptions and schemas stay as they were when
// the tool was first seen, because an approval must keep its meaning. A call is made
// once: one without an answer is reported as such, never repeated.
//
// One goroutine for each server, owned by Servers, connects and reconnects (server.go);
// it owns the goroutines of its connection (connection.go). A transport is a process
// (process.go) or an endpoint (http.go). Secrets are read at each connection and are
// redacted from results, errors, statuses and logs (secret.go).
package mcp

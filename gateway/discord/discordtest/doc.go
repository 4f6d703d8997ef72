// Package discordtest is a Discord for tests: the requests of its HTTP interface that a bot
// makes, and its gateway, in the wire format of version 9. Tests play the people with it, and
// what goes wrong: limits, refusals, connections that are cut after a message was taken, events
// that come twice or not at all.
//
// It is in memory and on 127.0.0.1. The handler of each request and connection is a goroutine
// of the server; Close waits for them.
package discordtest

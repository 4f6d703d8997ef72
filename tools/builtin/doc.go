// Package builtin holds the tools that every server has: clock, calculate, wait and
// search_session. They need no configuration and reach nothing outside of the process.
//
// cmd/parley calls New once and hands the tools to the engine. Each is a
// conversation.Tool that may be used by any number of goroutines and starts none. All are
// idempotent: after a crash the engine may run a call again.
package builtin

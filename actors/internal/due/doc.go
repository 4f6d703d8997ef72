// Package due looks for the sessions that have work to do and brings them into memory: at
// the start, every so often, and when it is told to.
//
// A Scanner belongs to the engine, whose goroutine it is (Run); the package owns none.
package due

// Package speech is how nodes of a cluster ask each other about sessions: a request with a
// command, and its answer, as bytes. What stands in them is encoded by conversation/wire.
package speech

// Package speech is how nodes of a cluster ask each other about sessions: a request with a
// command, and its answer, as bytes. What stands in them is encoded by conversation/wire. What
// they ask the one that runs a singleton is bytes of those who ask.
package speech

// Package hints tells the nodes of a cluster which rows of users' lists have changed in sessions
// of the others.
//
// A node gathers for each other one what has changed, each session once, and sends it a moment
// later in numbered messages. Every few seconds it says the last number. Who finds a gap, hears
// of a node for the first time, or loses one, reads its lists again: so what a broken
// connection or a killed node has not said is found in the store.
package hints

// Package attach takes files that clients upload, finds them again for messages and for who
// wants to see them, and takes away those that no message has named in time.
//
// What a file is, its bytes say: a type that they do not have is refused. Files has one
// goroutine while Run runs: the sweeper. In a cluster each node has one: a store says that
// several may sweep at the same time, and the next one may take over at any moment.
package attach

// Package writers holds the locks of sessions' writers, and in a bounded number of
// entries what they know: the head as it was last stored, and the keys.
//
// persistence/pebble takes a session's locks for each write of it, and keeps them until
// the write is durable. It owns no goroutine.
package writers

// Package erasure finds what goes with a session when it is erased: its own keys, those
// of its sub-sessions, and their entries in the lists. And it knows which sessions were.
//
// persistence/pebble calls Fill while nobody writes to the session's tree. It owns no
// goroutine.
package erasure

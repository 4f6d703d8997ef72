// Package seen holds which part and client keys a session has stored, in so little
// memory that every session in use can have one. It makes no mistake on the side
// that counts: a stored key is never taken for a new one.
//
// persistence/pebble calls it with the session's lock held; it owns no goroutine.
package seen

// Package store is the one place of the program that names a concrete store.
// Everything else in cmd/parley takes a Store, so a second kind of store is one
// more case here and its package beside persistence/pebble.
//
// Config embeds Options, main calls Open and closes the Store last, doctor calls
// Check. The package owns no goroutine.
package store

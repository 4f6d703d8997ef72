// Package layout is the one place that knows the keys and values of the embedded
// store: which tables there are, how a key is written and read, what a session's
// head holds, and the version of all that.
//
// Its functions are pure. They are called by persistence/pebble, which reads and
// writes the store, and by the packages beside this one, which check it.
package layout

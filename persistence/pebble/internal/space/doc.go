// Package space watches how much of the disk is left, and decides what may still be
// written. A full disk must be noticed before Pebble does: its flushes would fail
// without end, and its writers would wait without end.
//
// persistence/pebble makes one Guard for each store. Start owns the goroutine that
// looks at the disk; Close ends it.
package space

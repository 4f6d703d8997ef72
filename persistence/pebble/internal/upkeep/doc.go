// Package upkeep is what a store does by itself behind its writers: it takes erased
// text off the disk, and drops tombstones that are old enough.
//
// persistence/pebble starts an Upkeep when it has opened a store for writing, wakes
// it after each erasure and closes it before Pebble. An Upkeep owns one goroutine,
// from Start to Close.
package upkeep

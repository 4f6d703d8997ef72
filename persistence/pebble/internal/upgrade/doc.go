// Package upgrade takes a store of an older layout to the layout of this program.
//
// Rules:
//   - Steps has one function for each layout that was ever released. A step may be
//     ended by a kill at any moment and is then run again from its beginning: it has
//     to leave alone what it has done already.
//   - The layout's version is written last, synced, behind each step. Until then an
//     older program can still open the store; afterwards it refuses to.
//   - Reading an older layout must work without its step: a store that is opened for
//     reading only is not changed.
//
// persistence/pebble calls Store when it has opened a store for writing and before
// anybody else reads it. The package owns no goroutine.
package upgrade

// Package blobrows keeps what is attached to messages: a blobs.Store, with the keys of
// package layout.
//
// A blob is one batch: its chunks, its description, and its places in two lists. So it is
// there as a whole or not at all, whatever ends the process. It lies with the other keys of
// its session, and goes with them.
//
// Rules:
//   - Put and Renew keep their session from being erased; a Sweep keeps everybody from
//     writing to the session of a blob that it takes.
//   - A commit that names a blob only sets a key of its own, so it is in nobody's way.
//   - A reader never sees what is not durable yet.
//
// persistence/pebble makes one for each store. It owns no goroutine.
package blobrows

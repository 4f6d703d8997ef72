// Package ondisk looks at a directory before Pebble does, and changes nothing.
//
// Pebble makes a new database where no marker names a manifest, takes an invalid
// record for the end of a manifest, does not miss a log that is gone, and deletes
// what it does not know: a damaged store would be empty before anybody could look
// at it. So Look says what the directory holds and which of the markers count,
// ReadManifest reads the manifest that they name, and ReadLog reads a log, each up
// to the first chunk that is not intact, and what lies behind it (Tail).
//
// Rules:
//   - Nothing is written; every function takes a file system and reads.
//   - What a killed process or a power cut may leave is no damage; who calls
//     decides with what it knows beside the files.
//   - A *Damage names the file and is one sentence.
//
// The format of chunks is that of Pebble's package record, which stops where this
// one stops; a test compares the two. persistence/pebble calls it. It owns no goroutine.
package ondisk

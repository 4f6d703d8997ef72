// Package audit keeps what administrators do in a file: one JSON object a line, in
// audit.log of the data directory, synced before the act is done, readable by the
// server's user alone.
//
// A file that has become large is renamed to audit-NUMBER.log, and the oldest of these
// go. A cursor names a file and a place in it, so that a page begun before a rename
// goes on after it. A line that a crash has torn is skipped by readers, and the next one
// begins on a line of its own; a person may read and copy the files at any time.
//
// Other programs (parley key) may append while the server runs: each line is one write
// behind what is there. Only a File with FileBytes renames; there must be one of these
// alone.
//
// The package owns no goroutine; a File may be used from any.
package audit

// Package opening waits for what the opening of a store has to wait for: the lock
// of the directory, and room on the disk. Both waits end.
//
// persistence/pebble calls Lock and then Patiently, or LockToRead alone. Patiently owns the goroutine
// that opens Pebble; it ends with Pebble's Open, or with the process.
package opening

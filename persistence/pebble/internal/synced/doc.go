// Package synced keeps, in one small file beside the store's, how much of each log
// and manifest has been synced: what must be there after whatever happens.
//
// Pebble takes the first thing that it cannot read for the end of a log, since a
// log that a process left behind may end in the middle of a write; and it does not
// miss a log that is gone. The length that was synced tells such an end from
// damage, and a missing file from one that was removed.
//
// FS is a file system for Pebble that writes this down: after a sync of a log or a
// manifest, before Pebble is told of it, one write of 32 bytes at the file's place.
// These writes are not synced one by one, which would double the cost of a commit:
// they survive the end of the process, and a power cut leaves older lengths, which
// are true as well, only lower. They are synced when a log begins and after every
// sync of a manifest. An entry is forgotten before its file is removed, and Start
// writes the file anew, so that no entry of an earlier run is ever taken for that
// of a file that got its number again.
//
// The newest manifest that the marker has named is kept in the same way, behind the
// sync of the directory that made the marker durable: an older manifest is whole in
// itself, and a marker that was moved back to it would open an older store.
//
// FS also makes a new file where Pebble would write over an old log. An old log
// keeps what was erased since, and behind the end of the new one its old records
// would look like intact ones behind a damage.
//
// persistence/pebble calls Read before, and Start, Settle and Close around, the
// time that a store is open. The methods may be used from any goroutine; the
// package owns none.
package synced

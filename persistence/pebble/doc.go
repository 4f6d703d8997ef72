// Package pebble is the embedded store: Pebble behind conversation.Store.
//
// One record for each commit, under its last seq, with everything that belongs
// to it in the same batch; package layout has the keys. Every commit is synced before
// it returns; the commits of many sessions share a sync (group commit), which is
// why durability costs little once there is something to do.
//
// Open makes or opens the store of one directory, OpenReadOnly reads one that is
// there and changes nothing, OpenEphemeral makes one in memory; a
// DB has all the methods of conversation.Store, each safe from any goroutine, and
// Close, Backup (a copy while it runs), Health and Space; Verify checks a store
// that is open for reading. BackupStopped copies the directory of a store that no
// process has, Restore makes a data directory of a copy.
//
// Rules:
//   - A directory belongs to one process; Open says which one has it.
//   - A directory that Open refuses is as it was, but for LOCK and PID: packages
//     inspect, ondisk and synced look at it before Pebble may write (ADR 12).
//   - Errors of Open are *OpenError with a sentence for the person at the terminal.
//   - An error of Commit that is none of those that conversation.Store names leaves
//     the outcome unknown: acquire the session again and look for the commit's id.
//   - When a commit can no longer be made durable, Options.OnFatal is called; a
//     server ends there and starts again from what is on disk.
//   - A reader never sees a commit that is not durable yet.
//
// A DB owns two goroutines, the disk guard (internal/space) and the upkeep
// (internal/upkeep), and what Pebble starts; Close ends them. cmd/parley opens the
// store; everything else takes the interfaces of package conversation.
package pebble

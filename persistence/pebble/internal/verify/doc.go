// Package verify reads a whole store and says where its parts contradict each
// other: a session's head and its records, the keys and the events that own them,
// rows and indexes, sub-sessions and their roots, tombstones and what lies under
// them, what channels remember and the lists of it.
//
// Store checks everything, Count only reads and counts. Both change nothing, and
// with them every block of the store is read and its checksum compared. They are
// called by persistence/pebble, for a store that nobody writes to: what changes
// while it is read looks like a contradiction. They own no goroutine.
//
// A problem names sessions and ids, never what somebody wrote.
package verify

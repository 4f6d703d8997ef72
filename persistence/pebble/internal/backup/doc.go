// Package backup holds what backups and restores do to directories, without
// opening a store: the file that makes a directory a backup, copying the files of
// a store, and putting a restored store into its place so that a crash at any
// moment leaves the old one or the new one.
//
// A directory that is being written has a name of its own until it is whole:
// DEST.writing is a backup, DIR.restoring a restored store. The file RESTORING in
// a directory says that it is the new one of a restore, not the old one; it is
// written first and taken away last.
//
// Everything is done through a vfs.FS, so that tests can break every step. The
// package is called by persistence/pebble and owns no goroutine.
package backup

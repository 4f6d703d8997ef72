// Package rooms says in which room of a server its processor time goes, and its
// allocations and waits. ByRoom is the command: it has a server make profiles while
// clients work, reads them as /debug/pprof writes them (profile.go), and gives each
// sample to one room (rooms.go).
//
// A sample belongs to the innermost function of a package that is a room, or of one of
// the libraries that are named here (Pebble, the actor library): what it calls of other
// libraries and of the runtime is its own cost. Calls of the system, the garbage
// collector and the scheduler stand by themselves, whoever made them run.
package rooms

// Package guard runs a program together with everything that it starts, so that nothing
// of that is left when the run is over, and nothing outlives this server.
//
// Start starts a guard, a second process of this very program, which starts the
// command. What the command starts stays below its guard whatever it does: on Linux
// orphans become children of the guard (it is a "child subreaper"), also those in a
// session of their own and daemons. So the guard finds them all, and they have gone
// when it has no children left. It buries only its own children, and the server's
// others (MCP servers, for example) are not touched. Elsewhere the guard ends the
// command's process group.
//
// The guard takes orders by a pipe whose other end only the server has. When that
// closes, the server has ended, killed perhaps, and the guard ends the run. A guard that
// is killed itself takes the command with it, and the server ends the rest: on Linux it
// knows it by RunVariable in its environment.
//
// process.go is what the guard does, guard.go what the server does about it.
package guard

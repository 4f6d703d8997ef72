// Package peers measures a parley server beside programs of others that do a part of
// the same: Restate (durable turns) and the centrifuge library (fan-out, and clients that
// come back).
//
// Peers is the command. It installs the programs from their package managers
// (install.go), runs each workload against parley and the peer in turn, round by
// round, and prints Markdown tables with the conditions under which they compare.
// What cannot be installed or started is a row that says NOT RUN and why, and no error.
//
// turns.go is the workload of durable turns, with parley.go and restate.go as the
// contenders; fan.go is that of the fan-out and resume.go that of clients that come
// back, with sockets.go as the client of both sides. process.go starts what runs beside
// parley, and numbers.go counts.
//
// A client of a workload is a goroutine that the workload waits for; the readers of a
// fan-out end when their sockets are closed.
package peers

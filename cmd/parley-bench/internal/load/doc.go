// Package load measures a parley server and prints Markdown tables.
//
// Measure is the command. It runs each workload (workloads.go) against a fresh
// server, then the same shape of work without a server as its baseline: the bare
// store (baseline_store.go) and bare sockets (baseline_socket.go, in a process of
// its own, Echo). A ratio to the baseline says more than a number of a machine.
// With Quick everything runs in small, as a smoke test.
//
// Backup is a second command: turns with and without a backup, against one server.
// Start is a third: starts on a data directory, after stops and after kills.
//
// Server (a server's process), Conn (a socket of protocol v1) and Frame are shared
// with package checker. A Conn belongs to one goroutine at a time; the others may
// be used by several. A workload starts a goroutine for each of its clients and
// waits for all of them, but for the readers of a fan-out: closing their sockets
// ends them.
package load

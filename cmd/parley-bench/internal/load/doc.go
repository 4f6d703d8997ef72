// Package load measures a parley server and prints Markdown tables.
//
// Measure is the command. Its tables (tables.go) have rows; each row is measured in
// rounds (run.go): every variant, a program with settings (variant.go), against a
// fresh server, in an order that changes, and beside them the same shape of work
// without a server: the bare store (baseline_store.go) and bare sockets
// (baseline_socket.go, in a process of its own, Echo). A ratio of two medians of one
// run says more than a number of a machine, and what is counted (counts.go) more than
// what is timed. With Quick everything runs in small, as a smoke test.
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

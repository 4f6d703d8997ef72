// Package singleton runs on a node of a cluster what may run on one node only: while the ring
// gives it to this node, the table says that the node has it, and its lease holds.
package singleton

// Package singleton runs on a node of a cluster what may run on one node only: while the ring
// gives it to this node, the table says that the node has it, and its lease holds (Keeper). It
// brings requests of any node to the one that runs it, and the answers back (Switch).
package singleton

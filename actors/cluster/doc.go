// Package cluster makes a process one node of a cluster: it keeps the node's place among the
// members, sends what clients say to the node where a session lives, and follows sessions of
// other nodes for the clients of this one. What keeps two writers of one session apart
// is the store alone.
package cluster

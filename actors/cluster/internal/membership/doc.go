// Package membership keeps a node in the list of its cluster's members: it renews the node's
// lease, says when the lease is over, and ends a node that was removed or has slept too long.
package membership

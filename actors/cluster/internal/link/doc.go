// Package link carries messages between the nodes of a cluster: requests with one answer each,
// and messages without. Those of one node to another stay in their order.
package link

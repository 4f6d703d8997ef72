// Package clustertest proves what nodes of a cluster share: RunShared a store that each has
// a handle of its own on, RunMembers the list of members. A store passes the suite of
// package persistencetest as well, which knows one handle only.
package clustertest

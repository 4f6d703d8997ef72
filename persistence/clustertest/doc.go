// Package clustertest proves what nodes of a cluster share: RunShared a store that each has
// a handle of its own on, RunMembers the list of members, RunSingletons what one of them has,
// RunTickets the tickets that any node takes. A store passes the suite of package
// persistencetest as well, which knows one handle only.
package clustertest

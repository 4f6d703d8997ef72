// Package nodes runs a cluster on this machine, ends and freezes what it consists of, and
// says what clients notice of that:
//
//	cluster   three nodes and one that is a gateway only, as processes of their own, on
//	          one PostgreSQL with a synchronous standby (cluster.go)
//	node      one of them: killed, frozen, ended and started again; an end that nobody
//	          asked for is a violation (node.go)
//	fault     what happens to the cluster, one after the other: a plan for the short form,
//	          and one from a seed (fault.go, actions.go)
//	audit     what the database itself saw of every write: which process wrote under
//	          which epoch (audit.go)
//	watchers  sockets that do nothing and must stay (watch.go)
//
// Chaos is the command that lets a checker's swarm work meanwhile, and then compares all
// logs with what the swarm was told (chaos.go). Failover measures how long clients wait
// for a node that is gone (failover.go), Compare what a cluster costs (compare.go). Local
// runs a cluster for people who want to see one (local.go).
package nodes

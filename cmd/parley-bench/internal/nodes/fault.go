package nodes

import (
	"fmt"
	"math/rand/v2"
)

// fault is something that happens to a cluster.
type fault string

// The faults. Times of theirs are in leases.
const (
	killed      fault = "a node is killed"
	frozen      fault = "a node is frozen for longer than its lease"
	paused      fault = "a node is frozen for less than its lease"
	left        fault = "a node ends by SIGTERM"
	restarted   fault = "a node is killed and starts again at once"
	rolled      fault = "every node is restarted, one after the other"
	allKilled   fault = "all nodes are killed at once"
	joined      fault = "a node more joins, and leaves"
	gatewayDied fault = "the gateway-only node is killed"
	dbFast      fault = "PostgreSQL stops fast"
	dbImmediate fault = "PostgreSQL stops at once"
	dbFlap      fault = "PostgreSQL is frozen for less than a lease"
	promoted    fault = "PostgreSQL is lost, and its standby takes over"
)

var faults = []fault{killed, frozen, paused, left, restarted, rolled, allKilled, joined, gatewayDied, dbFast, dbImmediate, dbFlap, promoted}

// step is one fault of a plan.
type step struct {
	what fault
	node int     // which one, where it is about one of the nodes that run sessions
	hold float64 // leases until it is over: the node is started, the database is back
	rest float64 // leases until the next one, after all nodes are ready
	with bool    // the next one begins at the same time
}

func (s step) String() string {
	switch s.what {
	case restarted:
		return fmt.Sprintf("%s (node %d)", s.what, s.node+1)
	case killed, frozen, paused, left:
		return fmt.Sprintf("%s (node %d), for %.1f leases", s.what, s.node+1, s.hold)
	}
	return fmt.Sprintf("%s, for %.1f leases", s.what, s.hold)
}

// everyFault has each fault once, in an order in which one does not hide the next.
func everyFault() []step {
	return []step{
		{what: killed, node: 0, hold: 1.5, rest: 0.5},
		{what: dbFlap, hold: 0.6, rest: 0.5},
		{what: frozen, node: 1, hold: 1.6, rest: 0.5},
		{what: left, node: 2, hold: 0.5, rest: 0.5},
		{what: dbFast, hold: 1.3, rest: 0.5},
		{what: joined, hold: 0.5, rest: 0.5},
		{what: paused, node: 0, hold: 0.5, rest: 0.5},
		{what: promoted, hold: 0.5, rest: 0.5},
		{what: gatewayDied, hold: 0.5, rest: 0.3},
		{what: dbImmediate, hold: 0.5, rest: 0.5},
		{what: restarted, node: 1, hold: 0.1, rest: 0.3},
		{what: rolled, hold: 0.1, rest: 0.3},
		{what: allKilled, hold: 0.3, rest: 0.5},
	}
}

// randomFaults is a plan from a seed. Every fault is in it once per round; two of them
// may fall together, but never two of the database.
func randomFaults(random *rand.Rand, n, nodes int) []step {
	var plan []step
	for len(plan) < n {
		for _, i := range random.Perm(len(faults)) {
			s := step{what: faults[i], node: random.IntN(nodes), hold: 0.3 + 1.7*random.Float64(), rest: random.Float64()}
			switch s.what {
			case frozen:
				s.hold = 1.3 + random.Float64()
			case paused, dbFlap:
				s.hold = 0.2 + 0.5*random.Float64()
			case rolled:
				s.hold /= 4 // for each node
			}
			if last := len(plan) - 1; last >= 0 && random.IntN(4) == 0 && apart(plan[last], s) && (last == 0 || !plan[last-1].with) {
				plan[last].with = true
			}
			plan = append(plan, s)
		}
	}
	plan = plan[:n]
	plan[n-1].with = false
	return plan
}

// apart is true when two faults can happen at once and be told apart: not two of the
// database, not two of a node, and none with one of all nodes. Without the database nodes neither start nor know that
// they were deposed, so what ends one of them is not mixed with that.
func apart(a, b step) bool {
	return !a.what.ofDatabase() && !b.what.ofDatabase() && !a.what.ofAll() && !b.what.ofAll() && (a.what != b.what) && (a.node != b.node)
}

func (f fault) ofDatabase() bool {
	return f == dbFast || f == dbImmediate || f == dbFlap || f == promoted
}

func (f fault) ofAll() bool { return f == rolled || f == allKilled }

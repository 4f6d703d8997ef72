// Command parley-bench works on a parley server from outside, in a process of its
// own, over the loopback. It has modes, in packages below internal:
//
//	run    load: turns, fan-out, resumes, memory, activation and recovery, of one
//	       server or of several in turn, beside a baseline in the same rounds
//	profile rooms: in which rooms of the server a turn's time and allocations are
//	hostile hostile: attacks the server, and says what an honest client notices
//	soak   soak: makes and erases sessions at a rate, for long: what is left behind
//	backup load: what a backup costs those who use the server meanwhile
//	start  load: how long starts on a data directory take
//	crash  checker: kills the server under load, again and again, and checks that
//	       it kept what it acknowledged
//	chaos  nodes: ends and freezes the nodes and the database of a cluster under load,
//	       and checks that nothing was lost, doubled or shown when it was stale
//	failover nodes: how long clients notice that a node is gone
//	compare nodes: turns on one node and on three, and the way to another node
//	runtimes chaos: kills outside runtimes and the server while messages are
//	       answered, and checks every log
//	conform conform: checks a client of the protocol, in any language, through a
//	       proxy that misbehaves
//	receipts receipts: holds conversations with the server's model, and says how many
//	       of its receipts are true
//
// It knows the server by its protocol, its command line and its metrics only.
package main

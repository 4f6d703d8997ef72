package main

import (
	"os"
	"runtime"
)

// A thread that makes the log durable sits in fdatasync, a system call that
// keeps its P until the runtime's monitor takes it away. The log's writer is in
// it most of the time under load, so with two Ps up to half of the machine
// serves nobody, while the sessions whose commit is on the disk already wait
// for a P. More Ps than processors let the operating system run them meanwhile.
// Measured on two processors, "parley-bench run --only turns" at 200 clients,
// alternating: 6,590 turns/s with 2 Ps, 9,090 with 4; p99 62 and 47 ms. Since commits are
// joined, 3 and 4 Ps are equal in turns (13,910 and 13,790), and 4 have the shorter p99
// (29.9 and 27.9 ms; with 50 clients 10.2 and 9.3 ms).

// The rule of process.procs = 0: where there are at most fewProcessors, there are
// moreProcs Ps more than processors. With many processors one blocked P is a
// small part of the machine; with four more than processors, p99 was longer again.
const (
	fewProcessors = 4
	moreProcs     = 2
)

// setProcs sets the number of Ps (GOMAXPROCS) until the function that it returns is
// called: wanted, or by the rule above if wanted is 0. A GOMAXPROCS in the
// environment wins.
func setProcs(wanted int) (stop func()) {
	before := runtime.GOMAXPROCS(0)
	if wanted == 0 {
		wanted = procsFor(runtime.NumCPU(), before)
	}
	if os.Getenv("GOMAXPROCS") != "" || wanted == before {
		return func() {}
	}
	runtime.GOMAXPROCS(wanted)
	return runtime.SetDefaultGOMAXPROCS
}

// procsFor is the number of Ps for so many processors, of which Go would use
// chosen. If that is less, a container has a limit of processor time: with more Ps
// it would be used up early in each period, and all would stand still until the next.
// If it is more, a program in whose process this server runs has chosen already.
func procsFor(processors, chosen int) int {
	if processors > fewProcessors || chosen != processors {
		return chosen
	}
	return chosen + moreProcs
}

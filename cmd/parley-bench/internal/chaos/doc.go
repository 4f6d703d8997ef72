// Package chaos lets many outside runtimes answer many messages while runtimes and
// the server are killed with -9 at random, and then reads every log (N-17, M-33).
//
//	sender    sends messages to sessions of its own, and again until each one is
//	          acknowledged (sender.go)
//	Worker    a child process that is a runtime, and not a good one: it stalls,
//	          repeats itself, leaves gaps, fails, and takes its own life at some
//	          messages (worker.go). What the server acknowledged to it is in its
//	          journal, which a kill does not take away (journal.go)
//	judge     reads a session's log and compares it with what was acknowledged
//	          (judge.go)
//
// Runtimes is the command: it starts the server, the senders and the workers, kills
// and starts again until all is sent and nearly all answered, lets the rest finish,
// and judges (runtimes.go).
package chaos

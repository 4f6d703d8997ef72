// Package calls runs the tool calls and delegations of sessions, each in a child
// actor of its session.
//
// A child runs its call once. It is stopped when it fails and never restarted: a
// tool that ran twice could do its harm twice. The outcome is a command for the
// machine, and comes into the session's mailbox as an *End; the child lives on
// until the session tells it that this end is durable (Set.Ended), so that a
// repeated start finds it.
//
//	tool call    gives the tool a deadline, hands a cancel on, waits for the end; a
//	             question of the tool goes to its session, and the answer back
//	delegation   tells the sub-session its objective until that has an answer,
//	             and passes answers, amendments and the cancel down, in order
//	uplink       child of a sub-session: tells the parent session, in order, each
//	             thing until the parent has committed what follows from it
//
// Env holds what they need from the engine; there is one for all sessions. Set and
// Uplink are the parts of a session: which of its calls run, and its way up. Only
// the session's actor uses them.
//
// The package's goroutines are those of the tools, and those that read from the
// log; they are started by Env.Go. A tool call has two timers, a delegation one.
package calls

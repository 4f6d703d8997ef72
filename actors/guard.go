package actors

import (
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
)

// What the engine calls may panic: followers, the log, a store. None of that may
// end a session or the process: who calls out here only tells something, and nobody
// waits for it. A panic is logged and counted.

// panicked logs and counts a panic.
func (e *Engine) panicked(what string, r any) {
	e.m.Panics.Inc()
	e.log.Error("panic in "+what, "panic", r, "stack", string(debug.Stack()))
}

// guarded runs f and survives a panic in it.
func (e *Engine) guarded(what string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			e.panicked(what, r)
		}
	}()
	f()
}

// keepGoing supervises session actors. What fails outside of Receive is not the
// session: it goes on without the one message. Restarted it would have no name, while
// the registry and its mailbox still mean the one before; stopped it would answer
// nothing that is in its mailbox.
type keepGoing struct{ e *Engine }

// HandleFailure implements actor.SupervisorStrategy.
func (k *keepGoing) HandleFailure(_ *actor.ActorSystem, of actor.Supervisor, pid *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	k.e.panicked("a session's actor", reason)
	of.ResumeChildren(pid)
}

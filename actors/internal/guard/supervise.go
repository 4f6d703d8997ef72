package guard

import "github.com/asynkron/protoactor-go/actor"

// GoOnAfterFailure supervises session actors. What fails outside of Receive is not the
// session: it goes on without the one message. Restarted it would have no name, while
// the registry and its mailbox still mean the one before; stopped it would answer
// nothing that is in its mailbox.
type GoOnAfterFailure struct{ Failed func(reason any) }

// HandleFailure implements actor.SupervisorStrategy.
func (g *GoOnAfterFailure) HandleFailure(_ *actor.ActorSystem, of actor.Supervisor, pid *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	g.Failed(reason)
	of.ResumeChildren(pid)
}

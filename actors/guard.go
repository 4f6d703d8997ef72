package actors

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
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

// guardedPublisher survives panics of the publisher inside of it.
type guardedPublisher struct {
	to conversation.Publisher
	e  *Engine
}

// Publish implements conversation.Publisher. After a panic nobody knows who has got
// the events: followers are told to read them from the log.
func (p *guardedPublisher) Publish(key conversation.SessionKey, events []conversation.Event) {
	defer func() {
		if r := recover(); r != nil {
			p.e.panicked("publishing events", r)
			p.Stored(key, events[len(events)-1].Seq)
		}
	}()
	p.to.Publish(key, events)
}

// Show implements conversation.Publisher.
func (p *guardedPublisher) Show(key conversation.SessionKey, after conversation.Seq, what conversation.Ephemeral) {
	defer p.recovered("showing something")
	p.to.Show(key, after, what)
}

// Stored implements conversation.Publisher.
func (p *guardedPublisher) Stored(key conversation.SessionKey, head conversation.Seq) {
	defer p.recovered("telling followers how much is stored")
	p.to.Stored(key, head)
}

// Gone implements conversation.Publisher.
func (p *guardedPublisher) Gone(key conversation.SessionKey, reason string) {
	defer p.recovered("telling followers of an erasure")
	p.to.Gone(key, reason)
}

// recovered is to be deferred.
func (p *guardedPublisher) recovered(what string) {
	if r := recover(); r != nil {
		p.e.panicked(what, r)
	}
}

// guardedLog loses the line that its handler panics for: there is no other place to
// report it.
type guardedLog struct{ slog.Handler }

// Handle implements slog.Handler.
func (l guardedLog) Handle(ctx context.Context, line slog.Record) error {
	defer func() { _ = recover() }()
	return l.Handler.Handle(ctx, line)
}

// WithAttrs implements slog.Handler.
func (l guardedLog) WithAttrs(a []slog.Attr) slog.Handler { return guardedLog{l.Handler.WithAttrs(a)} }

// WithGroup implements slog.Handler.
func (l guardedLog) WithGroup(g string) slog.Handler { return guardedLog{l.Handler.WithGroup(g)} }

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

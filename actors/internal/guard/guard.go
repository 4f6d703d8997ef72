package guard

import (
	"context"
	"log/slog"

	"parley/conversation"
)

// SafePublisher survives panics of the publisher that it hands everything to.
type SafePublisher struct {
	To       conversation.Publisher
	Panicked func(what string, r any) // logs and counts a panic
}

// Publish implements conversation.Publisher. After a panic nobody knows who has got
// the events: followers are told to read them from the log.
func (p *SafePublisher) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	defer func() {
		if r := recover(); r != nil {
			p.Panicked("publishing events", r)
			p.Stored(key, epoch, events[len(events)-1].Seq)
		}
	}()
	p.To.Publish(key, epoch, events)
}

// Show implements conversation.Publisher.
func (p *SafePublisher) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, what conversation.Ephemeral) {
	defer p.recovered("showing something")
	p.To.Show(key, epoch, after, what)
}

// Stored implements conversation.Publisher.
func (p *SafePublisher) Stored(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	defer p.recovered("telling followers how much is stored")
	p.To.Stored(key, epoch, head)
}

// Audience implements conversation.Publisher.
func (p *SafePublisher) Audience(root conversation.SessionKey, epoch conversation.Epoch, now conversation.Summary) {
	defer p.recovered("asking followers whether they still may")
	p.To.Audience(root, epoch, now)
}

// Gone implements conversation.Publisher.
func (p *SafePublisher) Gone(key conversation.SessionKey, reason string) {
	defer p.recovered("telling followers of an erasure")
	p.To.Gone(key, reason)
}

// recovered is to be deferred.
func (p *SafePublisher) recovered(what string) {
	if r := recover(); r != nil {
		p.Panicked(what, r)
	}
}

// SafeLog loses the line that its handler panics for: there is no other place to report
// it.
type SafeLog struct{ slog.Handler }

// Handle implements slog.Handler.
func (l SafeLog) Handle(ctx context.Context, line slog.Record) error {
	defer func() { _ = recover() }()
	return l.Handler.Handle(ctx, line)
}

// Warnings drops log lines below the level of a warning: those of the actor library.
type Warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w Warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (w Warnings) WithAttrs(a []slog.Attr) slog.Handler { return Warnings{w.Handler.WithAttrs(a)} }

// WithGroup implements slog.Handler.
func (w Warnings) WithGroup(g string) slog.Handler { return Warnings{w.Handler.WithGroup(g)} }

// WithAttrs implements slog.Handler.
func (l SafeLog) WithAttrs(a []slog.Attr) slog.Handler { return SafeLog{l.Handler.WithAttrs(a)} }

// WithGroup implements slog.Handler.
func (l SafeLog) WithGroup(g string) slog.Handler { return SafeLog{l.Handler.WithGroup(g)} }

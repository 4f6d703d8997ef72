package observe

import (
	"context"
	"log/slog"
	"time"

	"parley/conversation"
)

// lines writes the log of a session: a line for each part, at DEBUG, and one for each
// task that has ended. The zero value has seen nothing.
type lines struct {
	tasks map[conversation.TaskID]work
}

// work is what a task has done since the session was loaded. It is small enough to
// lie in its map.
type work struct {
	agent            conversation.AgentName
	began            time.Time // its first start
	resumed          bool      // that was before the session was loaded
	mode             conversation.Mode
	steps, calls     uint32 // of models: steps, and attempts of them
	tools, delegated uint32
	parts            uint32
	in, out          uint32 // tokens
}

// events logs events that have become durable. A task of a root session is a line at
// INFO, for somebody waits for it. One of a sub-session is at DEBUG, because the root's
// line counts it as a delegation, unless it has failed: then the root's line alone
// would not say where.
func (l *lines) events(env *Env, o *Observer, s Session, events []conversation.Event) {
	ctx := context.Background()
	if !env.Log.Enabled(ctx, slog.LevelInfo) { // then nothing is counted for lines that nobody reads
		return
	}
	parts := env.Log.Enabled(ctx, slog.LevelDebug)
	for i := range events {
		e := &events[i]
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			if b.Mode != conversation.ModeDefault && (b.Disposition == conversation.Started || b.Disposition == conversation.Queued) {
				l.change(e.Task, func(w *work) { w.mode = b.Mode })
			}
		case conversation.StepStarted:
			l.change(e.Task, func(w *work) {
				w.agent = b.Agent
				w.calls++
				if b.Attempt == 1 {
					w.steps++
				}
				w.spent(b.Usage)
			})
		case conversation.StepFinished:
			l.change(e.Task, func(w *work) { w.spent(&b.Usage) })
		case conversation.ToolFinished:
			l.change(e.Task, func(w *work) { w.tools++ })
		case conversation.DelegationFinished:
			l.change(e.Task, func(w *work) { w.delegated++ })
		case conversation.PartialResponse:
			l.part(env, s.Key, e.Task, &b.Part, parts)
		case conversation.Response:
			if !b.Promoted {
				l.part(env, s.Key, e.Task, &b.Part, parts)
			}
		case conversation.TaskStatusChanged:
			switch {
			case b.New.Ended():
				l.ended(env, o, s, e, &b)
			case b.New == conversation.TaskRunning:
				l.change(e.Task, func(w *work) {
					if w.began.IsZero() {
						w.began = e.At
					}
				})
			}
		}
	}
}

// loaded takes a task that is open when the session was loaded.
func (l *lines) loaded(t *conversation.TaskView, agent conversation.AgentName) {
	if t.Steps > 0 || t.Status != conversation.TaskQueued {
		l.change(t.Task, func(w *work) { w.agent, w.resumed = agent, true })
	}
}

// change counts for a task. What belongs to none is not counted.
func (l *lines) change(task conversation.TaskID, f func(*work)) {
	if task == "" {
		return
	}
	if l.tasks == nil {
		l.tasks = map[conversation.TaskID]work{}
	}
	w := l.tasks[task]
	f(&w)
	l.tasks[task] = w
}

func (w *work) spent(u *conversation.Usage) {
	if u != nil {
		w.in += uint32(u.InputTokens)
		w.out += uint32(u.OutputTokens)
	}
}

// M-29: the key of each persisted part is in the log.
func (l *lines) part(env *Env, key conversation.SessionKey, task conversation.TaskID, p *conversation.Part, written bool) {
	l.change(task, func(w *work) { w.parts++ })
	if written {
		env.Log.Debug("part persisted", "tenant", key.Tenant, "session", key.Session, "source_id", p.Source, "part_index", p.Index, "message_id", p.Message)
	}
}

func (l *lines) ended(env *Env, o *Observer, s Session, e *conversation.Event, b *conversation.TaskStatusChanged) {
	w := l.tasks[e.Task]
	delete(l.tasks, e.Task)
	if !s.Busy && !s.Warm {
		l.tasks = nil
	}
	level := slog.LevelInfo
	if s.Key.Session.Depth() > 0 && b.New != conversation.TaskError {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !env.Log.Enabled(ctx, level) {
		return
	}
	var room [18]slog.Attr
	line := append(room[:0],
		slog.String("tenant", string(s.Key.Tenant)), slog.String("session", string(s.Key.Session)), slog.String("task", string(e.Task)),
		slog.String("agent", string(w.agent)), slog.String("message_id", string(b.Trigger)))
	if w.mode != conversation.ModeDefault {
		line = append(line, slog.String("mode", w.mode.String()))
	}
	line = append(line, slog.String("status", b.New.String()))
	if b.Reason != "" && b.Error != nil { // a client's reason for a cancel is its own text
		line = append(line, slog.String("reason", b.Reason))
	}
	if b.Error != nil {
		line = append(line, slog.String("code", string(b.Error.Code)))
	}
	switch {
	case w.resumed:
		line = append(line, slog.Bool("resumed", true)) // the numbers are those since then
	case !w.began.IsZero(): // else it was cancelled before it could run
		line = append(line, slog.Duration("took", e.At.Sub(w.began)))
	}
	line = append(line,
		slog.Int("steps", int(w.steps)), slog.Int("model_calls", int(w.calls)), slog.Int("tool_calls", int(w.tools)), slog.Int("delegations", int(w.delegated)),
		slog.Int("tokens_in", int(w.in)), slog.Int("tokens_out", int(w.out)), slog.Int("parts", int(w.parts)))
	if trace := o.trace.TraceID(e.Task); trace != "" {
		line = append(line, slog.String("trace_id", trace))
	}
	env.Log.LogAttrs(ctx, level, "task ended", line...)
}

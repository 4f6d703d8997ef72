package assemble

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
)

// warnEvery is how often the log is told of the same thing of a model.
const warnEvery = time.Minute

// told is a model that tells the log when its answers do not end by themselves, with the
// name of its block, and of the key that would help.
type told struct {
	conversation.Model
	name string
	key  string // that limits its answers; "" = none does
	log  *slog.Logger

	mu    sync.Mutex
	last  map[conversation.StopReason]time.Time // when the log was told
	since map[conversation.StopReason]int       // answers since then that it was not told of
}

func newTold(m conversation.Model, c *config.Config, name string, log *slog.Logger) *told {
	t := &told{Model: m, name: name, log: log, last: map[conversation.StopReason]time.Time{}, since: map[conversation.StopReason]int{}}
	if b := c.Block(name); b != nil && b.Connection() != nil {
		t.key = "models." + name + ".max_output_tokens"
	}
	return t
}

// Stream asks the model, and looks at how its answer ends.
func (t *told) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		for out, err := range t.Model.Stream(ctx, r) {
			var failed *conversation.ModelError
			switch {
			case out.Done != nil:
				t.ended(out.Done.Stop, &r)
			case errors.As(err, &failed) && failed.Failure.Code == conversation.Forbidden:
				t.ended(conversation.StopFiltered, &r)
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

func (t *told) ended(stop conversation.StopReason, r *conversation.Request) {
	if stop == 0 {
		return
	}
	t.mu.Lock()
	now, unsaid := time.Now(), t.since[stop]
	if last := t.last[stop]; !last.IsZero() && now.Sub(last) < warnEvery {
		t.since[stop]++
		t.mu.Unlock()
		return
	}
	t.last[stop], t.since[stop] = now, 0
	t.mu.Unlock()
	say := t.log.With("model", t.name, "session", r.Session, "task", r.Task, "step", r.Step, "unsaid", unsaid)
	switch {
	case stop == conversation.StopRefused:
		say.Info("a model has refused to answer")
	case stop == conversation.StopFiltered:
		say.Warn("a model's provider has withheld an answer, or the rest of one")
	case t.key != "":
		say.Warn("an answer of a model ended at its limit of tokens; raise the key", "key", t.key)
	default:
		say.Warn("an answer of a model ended at its limit of tokens")
	}
}

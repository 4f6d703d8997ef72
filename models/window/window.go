package window

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync/atomic"

	"parley/conversation"
	"parley/conversation/fit"
)

// Stats are the counts of a model, for metrics.
type Stats struct {
	Cut  int64 // requests that were shown less of the conversation
	Over int64 // of those, requests that were too large all the same
}

// Model is a model that is shown no more than it can hold.
type Model struct {
	model  conversation.Model
	tokens int
	log    *slog.Logger

	cut, over atomic.Int64
}

var _ conversation.Model = (*Model)(nil)

// New makes a model whose requests have at most so many tokens, by the engine's estimate,
// its answer not counted. log may be nil.
func New(model conversation.Model, tokens int, log *slog.Logger) (*Model, error) {
	if model == nil || tokens <= 0 {
		return nil, errors.New("window: a model and a number of tokens are needed")
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Model{model: model, tokens: tokens, log: log}, nil
}

// Label names the wrapped model.
func (m *Model) Label() string { return m.model.Label() }

// Stats returns the counts as of now.
func (m *Model) Stats() Stats { return Stats{Cut: m.cut.Load(), Over: m.over.Load()} }

// Stream asks once, with a request that is cut where it must be. What cannot be left
// out is sent, however large it is: the provider says whether that is too much.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	before := r.Tokens()
	if before <= m.tokens {
		return m.model.Stream(ctx, r)
	}
	r.Entries, r.Own, r.Counted = fit.Results(r.Entries, m.tokens, r.Named), 0, conversation.Counts{}
	t := fit.Cut{
		Entries: r.Entries, Task: r.Task,
		Tokens: func(i int) int { return r.Entries[i].Tokens() },
		Pinned: func(i int) bool { return r.Entries[i].Pinned },
		Over:   func(task conversation.TaskID) bool { return task != r.Task },
	}
	entries, after, left := t.To(m.tokens, r.Tokens())
	m.cut.Add(1)
	if after > m.tokens {
		m.over.Add(1)
	}
	m.log.Info("a request was cut for a model that holds less", "model", m.Label(), "session", r.Session, "task", r.Task, "step", r.Step,
		"tokens_before", before, "tokens_after", after, "left_out", left, "limit", m.tokens)
	shown := r
	shown.Entries = entries
	return m.model.Stream(ctx, shown)
}

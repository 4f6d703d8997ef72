package config

import (
	"context"
	"iter"
	"slices"

	"parley/conversation"
)

// nonStreaming is a model whose answers come in one piece (model.stream = false).
type nonStreaming struct{ conversation.Model }

// Stream is the model's, without deltas.
func (w nonStreaming) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	r.Stream = false
	return w.Model.Stream(ctx, r)
}

// heartbeatOnly suppresses a model's deltas but keeps their keep-alive: with
// model.stream = false a command-line agent has no other way to show that it works.
type heartbeatOnly struct{ conversation.Model }

// Stream is the model's, without text until the end.
func (s heartbeatOnly) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		for out, err := range s.Model.Stream(ctx, r) {
			out.Delta = ""
			if out.Done != nil {
				whole := *out.Done
				whole.Items = slices.Clone(whole.Items)
				for i := range whole.Items {
					whole.Items[i].Streamed = false
				}
				out.Done = &whole
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

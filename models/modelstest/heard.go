package modelstest

import (
	"context"

	"parley/conversation"
)

// Heard is the stream of a model, read to its end.
type Heard struct {
	Text       string // all deltas
	KeepAlives int    // outputs without one
	Done       *conversation.ModelAnswer
	Err        error
}

// Ask makes a call and reads it to its end.
func Ask(ctx context.Context, m conversation.Model, r conversation.Request) (h Heard) {
	for out, err := range m.Stream(ctx, r) {
		switch {
		case err != nil:
			h.Err = err
		case out.Done != nil:
			h.Done = out.Done
		case out.Delta == "":
			h.KeepAlives++
		default:
			h.Text += out.Delta
		}
	}
	return h
}

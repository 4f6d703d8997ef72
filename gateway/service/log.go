package service

import (
	"context"
	"iter"
	"slices"

	"parley/conversation"
)

// Events walks over the stored events with after < seq < before (0 = to the end).
func (c *Services) Events(ctx context.Context, key conversation.SessionKey, after, before conversation.Seq) iter.Seq2[*conversation.Event, error] {
	return func(yield func(*conversation.Event, error) bool) {
		for record, err := range c.Sessions.Records(ctx, key, conversation.Range{After: after, Before: before}) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range record.Events {
				e := &record.Events[i]
				if e.Seq <= after || (before != 0 && e.Seq >= before) {
					continue
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// Complete fills in what the receipt of a repetition of long ago does not say:
// the log knows what came of the first delivery.
func (c *Services) Complete(ctx context.Context, key conversation.SessionKey, r *conversation.Receipt) error {
	if r.Seq == 0 {
		return nil
	}
	for e, err := range c.Events(ctx, key, r.Seq-1, r.Seq+1) {
		if err != nil {
			return err
		}
		if accepted, ok := e.Body.(conversation.MessageAccepted); ok {
			r.Message, r.Disposition = accepted.Message, accepted.Disposition
			if e.Task != "" {
				r.Task = e.Task
			}
		}
	}
	return nil
}

// CompleteReply fills in the statuses of a repeated reply or answer: those of its
// first answer. Only what the first delivery itself brought about counts, which
// follows its message directly: a task that stayed where it was, because another
// of its questions was open, may have moved for other reasons since.
func (c *Services) CompleteReply(ctx context.Context, key conversation.SessionKey, r *conversation.Receipt) error {
	for e, err := range c.Events(ctx, key, r.Seq-1, 0) {
		if err != nil {
			return err
		}
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			if e.Seq != r.Seq {
				return nil
			}
			r.Message, r.Task = b.Message, e.Task
			if r.Kept = b.Kept; r.Kept { // it moved nothing
				r.OldStatus, err = c.StatusBefore(ctx, key, e.Task, r.Seq)
				r.NewStatus = r.OldStatus
				return err
			}
			if b.Disposition != conversation.Answered {
				return nil
			}
			r.OldStatus, err = c.StatusBefore(ctx, key, e.Task, r.Seq)
			if err != nil {
				return err
			}
			r.NewStatus = r.OldStatus
		case conversation.QuestionAnswered:
			if b.Message != r.Message {
				return nil
			}
		case conversation.MessageResolved:
			if b.Message != r.Message {
				return nil
			}
		case conversation.TaskStatusChanged:
			if e.Task == r.Task && b.Old == r.OldStatus {
				r.NewStatus = b.New
			}
			return nil
		default:
			return nil
		}
	}
	return nil
}

// StatusBefore is the status that a task had when the event seq came.
func (c *Services) StatusBefore(ctx context.Context, key conversation.SessionKey, task conversation.TaskID, seq conversation.Seq) (conversation.TaskStatus, error) {
	for record, err := range c.Sessions.Records(ctx, key, conversation.Range{Before: seq, Reverse: true}) {
		if err != nil {
			return 0, err
		}
		for _, e := range slices.Backward(record.Events) {
			if b, ok := e.Body.(conversation.TaskStatusChanged); ok && e.Task == task && e.Seq < seq {
				return b.New, nil
			}
		}
	}
	return conversation.TaskQueued, nil // as it was born
}

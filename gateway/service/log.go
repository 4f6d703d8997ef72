package service

import (
	"context"
	"iter"
	"slices"

	"parley/conversation"
	"parley/conversation/readmodel"
)

// Events walks over the stored events with after < seq < before (0 = to the end).
func (s *Services) Events(ctx context.Context, key conversation.SessionKey, after, before conversation.Seq) iter.Seq2[*conversation.Event, error] {
	return func(yield func(*conversation.Event, error) bool) {
		for record, err := range s.Sessions.Records(ctx, key, conversation.Range{After: after, Before: before}) {
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
func (s *Services) Complete(ctx context.Context, key conversation.SessionKey, r *conversation.Receipt) error {
	if r.Seq == 0 {
		return nil
	}
	for e, err := range s.Events(ctx, key, r.Seq-1, r.Seq+1) {
		if err != nil {
			return err
		}
		readmodel.CompleteReceipt(r, e)
	}
	return nil
}

// CompleteReply fills in the statuses of a repeated reply or answer: those of its
// first answer.
func (s *Services) CompleteReply(ctx context.Context, key conversation.SessionKey, r *conversation.Receipt) error {
	reply := readmodel.NewRepeatedReply(*r)
	for e, err := range s.Events(ctx, key, r.Seq-1, 0) {
		if err != nil {
			return err
		}
		if reply.Add(e) {
			break
		}
	}
	before := conversation.TaskStatus(0)
	if reply.NeedsStatus() {
		var err error
		if before, err = s.StatusBefore(ctx, key, reply.Receipt.Task, r.Seq); err != nil {
			return err
		}
	}
	*r = reply.Complete(before)
	return nil
}

// StatusBefore is the status that a task had when the event seq came.
func (s *Services) StatusBefore(ctx context.Context, key conversation.SessionKey, task conversation.TaskID, seq conversation.Seq) (conversation.TaskStatus, error) {
	for e, err := range s.EventsBackward(ctx, key, seq) {
		if err != nil {
			return 0, err
		}
		if status, ok := readmodel.StatusChange(e, task); ok {
			return status, nil
		}
	}
	return conversation.TaskQueued, nil // as it was born
}

// EventsBackward walks over the stored events before a seq, the newest first.
func (s *Services) EventsBackward(ctx context.Context, key conversation.SessionKey, before conversation.Seq) iter.Seq2[*conversation.Event, error] {
	return func(yield func(*conversation.Event, error) bool) {
		for record, err := range s.Sessions.Records(ctx, key, conversation.Range{Before: before, Reverse: true}) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range slices.Backward(record.Events) {
				if e := &record.Events[i]; e.Seq < before && !yield(e, nil) {
					return
				}
			}
		}
	}
}

package rest

import (
	"context"

	"parley/conversation"
	"parley/conversation/readmodel"
	"parley/gateway/service"
)

// history reads a page of the conversation that follows the event after.
func (s *API) history(ctx context.Context, key conversation.SessionKey, after conversation.Seq, limit int) (*readmodel.History, error) {
	h := readmodel.NewHistory(limit, s.Limits.PageBytes)
	for e, err := range s.Events(ctx, key, after, 0) {
		if err != nil {
			return nil, err
		}
		if h.Add(e) {
			break
		}
	}
	return h, nil
}

// findCall looks a call up in the log.
func (s *API) findCall(ctx context.Context, key conversation.SessionKey, id conversation.CallID) (*readmodel.Call, error) {
	call := readmodel.NewCall(id)
	for e, err := range s.Events(ctx, key, 0, 0) {
		if err != nil {
			return nil, err
		}
		if call.Add(e) {
			break
		}
	}
	return call, nil
}

// readTasks reads the tasks of rows, each session's log once. Those at the end are left
// out when their texts make the page too large.
func readTasks(ctx context.Context, s *service.Services, rows []conversation.TaskRow) ([]*readmodel.Task, error) {
	tasks := readmodel.NewTasks(rows, s.Limits.PageBytes)
	for _, key := range tasks.Sessions() {
		for _, stretch := range tasks.Stretches(key) {
			for e, err := range s.Events(ctx, key, stretch.After, stretch.Before) {
				if err != nil {
					return nil, err
				}
				tasks.Add(key, e)
			}
		}
		before := tasks.Before(key)
		if before == 0 {
			continue
		}
		for e, err := range s.EventsBackward(ctx, key, before) {
			if err != nil {
				return nil, err
			}
			if tasks.AddBefore(key, e) {
				break
			}
		}
	}
	return tasks.Page(), nil
}

// task reads a task's events: from the one that created it to the last of its
// status, or to the end while it is open.
func (s *API) task(ctx context.Context, row conversation.TaskRow) (*readmodel.Task, error) {
	t := readmodel.NewTask(row)
	before := conversation.Seq(0)
	if row.Status.Ended() && row.Last > 0 {
		before = row.Last + 1
	}
	for e, err := range s.Events(ctx, row.Key, max(row.First, 1)-1, before) {
		if err != nil {
			return nil, err
		}
		t.Add(e)
	}
	if t.Prompted() {
		return t, nil
	}
	for e, err := range s.EventsBackward(ctx, row.Key, row.First) {
		if err != nil {
			return nil, err
		}
		if t.AddBefore(e) {
			break
		}
	}
	return t, nil
}

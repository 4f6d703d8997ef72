package find

import (
	"context"
	"errors"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/search"
)

const (
	// buildEvery is how often it is looked for sessions that have gone on.
	buildEvery = 2 * time.Second
	// buildRecords is how much of a log is taken into the index at once.
	buildRecords = 256
	// mostBehind is how many sessions are asked for at once that have gone on.
	mostBehind = 256
	// mostRounds is how often, before there is a pause.
	mostRounds = 64
)

// Run brings the index up to the logs, and keeps it there, until ctx ends. A guide knows itself
// which sessions have gone on; where there is none, the list of sessions by their activity says
// it: the first time all have. What Run has not done yet is searched in the logs, so nothing
// depends on when it comes round, and what ends in between is begun again.
func (f *Finder) Run(ctx context.Context) {
	if f.index == nil || !f.o.Messages {
		return
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for reached := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		var err error
		if reached, err = f.goOn(ctx, reached); err == nil {
			f.metrics.Complete.Set(1)
		} else if ctx.Err() == nil {
			f.metrics.BuildErrors.Inc()
		}
		pause.Reset(buildEvery)
	}
}

// Build brings the index up to the logs once.
func (f *Finder) Build(ctx context.Context) error {
	_, err := f.goOn(ctx, "")
	return err
}

// goOn brings the index up to the logs: what a guide knows to be behind them, or the sessions
// from a place of the list on.
func (f *Finder) goOn(ctx context.Context, from string) (reached string, err error) {
	if f.guide == nil {
		return f.build(ctx, from)
	}
	for range mostRounds {
		some, whole, err := f.guide.Behind(ctx, mostBehind)
		if err != nil {
			return from, err
		}
		if !whole {
			return f.begin(ctx, from)
		}
		for _, key := range some {
			row, err := f.logs.Summary(ctx, key)
			row.Key = key
			if err := f.taken(ctx, row, err); err != nil {
				return "", err
			}
		}
		f.metrics.Behind.Set(float64(len(some)))
		if len(some) < mostBehind {
			break
		}
	}
	return "", ctx.Err()
}

// begin has a guide follow all sessions, once each was looked at from a place of the list on.
func (f *Finder) begin(ctx context.Context, from string) (reached string, err error) {
	if from == "" {
		f.metrics.Complete.Set(0)
		f.guide.Follow()
	}
	if reached, err = f.build(ctx, from); err != nil {
		return reached, err
	}
	f.guide.Whole()
	return "", nil
}

// build takes the sessions that have been active since a place of the list, and says how far
// it came.
func (f *Finder) build(ctx context.Context, from string) (reached string, err error) {
	reached = from
	for row, err := range f.logs.Sessions(ctx, conversation.Page{Oldest: true, Cursor: from}) {
		if err != nil {
			return reached, err
		}
		if err := f.taken(ctx, row, nil); err != nil {
			return reached, err
		}
		reached = row.PageCursor()
	}
	return reached, ctx.Err()
}

// taken brings the index of one session up to its log, if that and its row can be read.
func (f *Finder) taken(ctx context.Context, row conversation.Summary, err error) error {
	f.metrics.Sessions.Inc()
	if err == nil {
		f.metrics.Reached.Set(float64(row.Activity.UnixMilli()) / 1000)
		err = f.take(ctx, row)
	}
	switch {
	case err == nil, errors.Is(err, conversation.ErrNotFound):
		return nil
	case ctx.Err() == nil && (errors.Is(err, conversation.ErrDamaged) || errors.Is(err, conversation.ErrTooNew)):
		f.metrics.LeftOut.Inc()
		if f.guide != nil {
			f.guide.Unread(row.Key)
		}
		return nil
	}
	return err
}

// take brings the index of one session up to its log.
func (f *Finder) take(ctx context.Context, row conversation.Summary) error {
	_, through, err := f.index.Said(ctx, row.Key, search.Query{}, search.Newest, 0)
	for err == nil && through < row.Last {
		var news search.News
		for r, err := range f.logs.Records(ctx, row.Key, conversation.Range{After: through, Limit: buildRecords}) {
			if err != nil {
				return err
			}
			for _, e := range r.Events {
				if e.Seq > through {
					news.Add(e)
				}
			}
		}
		if news.Through == 0 {
			return nil // erased
		}
		err = f.index.Keep(ctx, row.Key, through, news)
		through = news.Through
		f.metrics.Kept.Add(float64(len(news.Said)))
		for _, s := range slices.Concat(news.Said, news.Reworded) {
			f.metrics.KeptBytes.Add(float64(len(s.Folded)))
		}
	}
	return err
}

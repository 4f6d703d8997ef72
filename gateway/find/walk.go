package find

import (
	"context"
	"math"

	"parley/conversation"
	"parley/conversation/search"
)

const (
	// What is read of a session at once, in the index at first: many have nothing.
	leastSaid   = 16
	mostSaid    = 256
	mostRecords = 32
	// leastSessions are those that a guide looks at first; then each time twice as many.
	leastSessions = 64
	// costOfRecord is what reading a record counts for, in texts that the index keeps.
	costOfRecord = 8
)

// walk goes through what can be found of one session, the newest first: the log down to
// where the index ends, and then the index.
type walk struct {
	of      conversation.Summary
	from    search.Place // only what is behind it is wanted
	bound   spot         // all that is wanted and that the walk has not read yet is behind it
	unseen  bool         // its row has not been read: only Key and, as a bound, Activity are known
	begun   bool
	inIndex bool
	through conversation.Seq
	before  conversation.Seq                    // in the log it goes on before this one
	at      search.Place                        // in the index it goes on behind this
	some    int                                 // as much of it as is read at once
	later   map[conversation.MessageID]reworded // of what the walk has not come to yet
	query   search.Query                        // what it asks the index for
}

// reworded is what became of a message later than it was said.
type reworded struct {
	search.Change
	seq conversation.Seq
}

// begin is the walk through a session, for what is behind a spot.
func begin(of conversation.Summary, after spot, q search.Query) *walk {
	w := &walk{of: of, from: search.Place{At: after.at, Seq: after.seq}, before: math.MaxInt64, query: q}
	switch id := of.Key.Session; {
	case id > after.session:
		w.from.Seq = math.MaxInt64
	case id < after.session:
		w.from.Seq = 0
	}
	if w.bound = (spot{of.Activity.UnixMilli(), of.Key.Session, first.seq}); compare(w.bound, after) < 0 {
		w.bound = after
	} else { // what is said from now on is not wanted: something older may have been given
		w.from = search.Place{At: w.bound.at, Seq: w.bound.seq}
	}
	w.at, w.some = w.from, leastSaid
	return w
}

// next reads some more; done = there is no more. cost is what it counts for: nothing for
// what is not wanted.
func (w *walk) next(ctx context.Context, f *Finder) (some []search.Said, cost int, done bool, err error) {
	if !w.begun {
		w.begun = true
		if f.index != nil {
			if some, w.through, err = f.index.Said(ctx, w.of.Key, w.query, w.at, w.some); err != nil {
				return nil, 0, false, err
			}
			if w.inIndex = w.through >= w.of.Last; w.inIndex { // nothing has to be read in the log
				return w.indexed(some)
			}
			some = nil // it comes behind the log
		}
	}
	if w.inIndex {
		if some, _, err = f.index.Said(ctx, w.of.Key, w.query, w.at, w.some); err != nil {
			return nil, 0, false, err
		}
		return w.indexed(some)
	}
	records := 0
	for r, err := range f.logs.Records(ctx, w.of.Key, conversation.Range{After: w.through, Before: w.before, Limit: mostRecords, Reverse: true}) {
		if err != nil {
			return nil, 0, false, err
		}
		for i := len(r.Events) - 1; i >= 0; i-- {
			e := r.Events[i]
			if e.Seq <= w.through || e.Seq >= w.before {
				continue
			}
			at := search.Place{At: e.At.UnixMilli(), Seq: e.Seq}
			some = w.read(some, e, at)
			if at.Behind(w.from) {
				w.bound = spot{at.At, w.of.Key.Session, at.Seq}
				cost = max(cost, 1)
			}
		}
		if cost > 0 {
			cost += costOfRecord
		}
		records++
		w.before = r.Events[0].Seq
	}
	if records < mostRecords {
		w.inIndex, done = true, w.through == 0
		for _, c := range w.later {
			if c.What == search.Rewords { // the index has it with its words of before
				w.query = search.Query{}
			}
		}
	}
	return some, cost, done, nil
}

// read takes an event of the log.
func (w *walk) read(some []search.Said, e conversation.Event, at search.Place) []search.Said {
	c := search.Of(e)
	switch c.What {
	case search.Rewords, search.Unsays:
		if w.later == nil {
			w.later = map[conversation.MessageID]reworded{}
		}
		if _, known := w.later[c.Message]; !known {
			w.later[c.Message] = reworded{c, e.Seq}
		}
	case search.Speaks:
		said := search.Said{Message: c.Message, Seq: e.Seq, At: e.At, Text: e.Seq}
		gone := w.changed(&said)
		if delete(w.later, said.Message); gone || !at.Behind(w.from) {
			break
		}
		if said.Text == e.Seq {
			said.Folded = search.Fold(c.Text)
		}
		some = append(some, said)
	}
	return some
}

// changed lets what was said have its last text; true = it was taken back.
func (w *walk) changed(s *search.Said) bool {
	c, is := w.later[s.Message]
	if is && c.What == search.Rewords {
		s.Text, s.Folded = c.seq, search.Fold(c.Text)
	}
	return is && c.What == search.Unsays
}

// indexed takes what the index has; what has come into it since the walk began was read
// in the log.
func (w *walk) indexed(all []search.Said) (some []search.Said, cost int, done bool, err error) {
	done = len(all) < w.some
	w.some = min(2*w.some, mostSaid)
	for _, s := range all {
		w.at = s.Place()
		w.bound = spot{w.at.At, w.of.Key.Session, s.Seq}
		if s.Seq <= w.through && !w.changed(&s) {
			some = append(some, s)
		}
	}
	return some, 4 + len(all), done, nil
}

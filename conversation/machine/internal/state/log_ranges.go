package state

import (
	"parley/conversation"
)

// compaction remembers the last summary of a session. Stored in
// snapshots.
type compaction struct {
	Upto conversation.Seq
	From conversation.Seq // a transcript must be fed with what follows: tasks that had not ended by Upto stay whole
}

// origin is the session's original request: the first message that a model read.
// Stored in snapshots.
type origin struct {
	Accepted conversation.Seq
	Read     conversation.Seq
}

// endedTasks is one entry about the places of ended tasks in the log. It covers the
// tasks whose last event lies after the previous entry's End and not after End: all
// their events lie at First or later. Stored in snapshots.
type endedTasks struct{ First, End uint32 }

// Tasks that lie close together are remembered as one, and so are all that lie
// further back than a summary that is still being made.
const (
	endedSpan  = 128 // events
	endedSpans = 16
)

// taskEnds remembers where a task lies: a summary up to a seq before its end does
// not cover it, and a transcript must then be fed all of it. Events that it
// does not need cost a transcript only time.
func (st *State) taskEnds(t *Task, end conversation.Seq) {
	next := endedTasks{uint32(t.since()), uint32(end)}
	if n := len(st.Ended); n > 0 {
		last := &st.Ended[n-1]
		if first := min(last.First, next.First); next.End-first <= endedSpan {
			last.First, last.End = first, next.End
			return
		}
	}
	st.Ended = append(st.Ended, next)
	if len(st.Ended) > endedSpans {
		st.Ended[1].First = min(st.Ended[0].First, st.Ended[1].First)
		st.Ended = append(st.Ended[:0], st.Ended[1:]...)
	}
}

// since is the first event that tells of the task or its messages.
func (t *Task) since() conversation.Seq {
	first := t.First
	if t.Since > 0 {
		first = min(first, t.Since)
	}
	for _, m := range t.Messages {
		first = min(first, m.Seq)
	}
	return first
}

// first is the original request, if this is the step that reads it.
func (st *State) first(b conversation.StepStarted) (*Task, *Message) {
	if st.Step > 0 || b.Step != 1 || len(b.Read) == 0 {
		return nil, nil
	}
	return st.Message(b.Read[0])
}

func (st *State) applyCompacted(b conversation.ContextCompacted) {

	from := b.Upto
	for _, t := range st.Tasks {
		from = min(from, t.since()-1)
	}
	for _, t := range st.Ended {
		if conversation.Seq(t.End) > b.Upto {
			from = min(from, conversation.Seq(t.First)-1)
		}
	}
	st.Compacted = &compaction{Upto: b.Upto, From: from}
}

// TranscriptFrom is the seq after which a transcript must be fed: what the last
// summary does not cover, or without one the window; and everything since the
// first event of a task that has not ended.
func (st *State) TranscriptFrom() conversation.Seq {
	from := st.Head - min(st.Head, conversation.TranscriptWindow)
	if c := st.Compacted; c != nil {
		from = c.From
	}
	for _, t := range st.Tasks {
		from = min(from, t.since()-1)
	}
	return from
}

// TranscriptOrigin is the range of the original request, from accepted to read,
// for Transcript.Pin. ok is false if TranscriptFrom includes it.
func (st *State) TranscriptOrigin() (r conversation.Range, ok bool) {
	o := st.Origin
	if o == nil || st.TranscriptFrom() < o.Accepted {
		return conversation.Range{}, false
	}
	return conversation.Range{After: o.Accepted - 1, Before: o.Read + 1}, true
}

package state

import (
	"cmp"
	"slices"

	"parley/conversation"
)

// compaction remembers the last summary of a session. Stored in
// snapshots.
type compaction struct {
	Upto conversation.Seq // tasks that had not ended by then stay whole
}

// origin is the session's original request: the first message that a model read.
// Stored in snapshots.
type origin struct {
	Accepted conversation.Seq
	Read     conversation.Seq
	Task     uint32 // that read it
}

// span is a stretch of the log. Stored in snapshots.
type span struct{ First, Last uint32 }

// Events of a task that lie close together are remembered as one stretch. A task
// of more stretches than these has the nearest ones remembered as one: a
// transcript reads more events then, and shows the same.
const (
	spanGap  = 16 // events of others between two stretches
	maxSpans = 32
)

// extend takes one more event into the list, which is in order.
func extend(spans []span, seq conversation.Seq) []span {
	at := uint32(seq)
	if n := len(spans); n > 0 && at <= spans[n-1].Last+spanGap {
		spans[n-1].Last = max(spans[n-1].Last, at)
		return spans
	}
	spans = append(spans, span{at, at})
	if len(spans) <= maxSpans {
		return spans
	}
	nearest := 1
	for i := 2; i < len(spans); i++ {
		if spans[i].First-spans[i-1].Last < spans[nearest].First-spans[nearest-1].Last {
			nearest = i
		}
	}
	spans[nearest-1].Last = spans[nearest].Last
	return slices.Delete(spans, nearest, nearest+1)
}

// leftOver are the events of a task that is born of messages which were accepted before.
func leftOver(messages []*Message) (spans []span) {
	var seqs []conversation.Seq
	for _, m := range messages {
		seqs = append(seqs, m.Seq)
		if m.Edited > 0 {
			seqs = append(seqs, m.Edited)
		}
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		spans = extend(spans, seq)
	}
	return spans
}

// endedTasks is one entry about the places of ended tasks in the log. It covers the
// tasks whose last event lies after the previous entry's End and not after End: all
// their events lie at First or later. Stored in snapshots.
type endedTasks struct {
	First, End uint32
	Waited     *waited `json:",omitempty"` // it covers this task alone
}

// waited is a task that waited while others came and went. Stored in snapshots.
type waited struct {
	Task   uint32
	Events []span
}

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
	own := extend(t.Events, end)
	next, between := endedTasks{First: own[0].First, End: uint32(end)}, uint32(0)
	for i := range own[1:] {
		between += own[i+1].First - own[i].Last
	}
	if between > endedSpan {
		next.Waited = &waited{t.N, own}
	}
	if n := len(st.Ended); n > 0 && next.Waited == nil && st.Ended[n-1].Waited == nil {
		last := &st.Ended[n-1]
		if first := min(last.First, next.First); next.End-first <= endedSpan {
			last.First, last.End = first, next.End
			return
		}
	}
	st.Ended = append(st.Ended, next)
	if len(st.Ended) > endedSpans {
		both := endedTasks{First: min(st.Ended[0].First, st.Ended[1].First), End: st.Ended[1].End}
		st.Ended = append(st.Ended[:0], st.Ended[1:]...)
		st.Ended[0] = both
	}
}

// first is the original request, if this is the step that reads it: the first message
// that a model has read, or of those that came after a clear.
func (st *State) first(b conversation.StepStarted) (*Task, *Message) {
	if st.Origin != nil || st.Cleared == 0 && (st.Step > 0 || b.Step != 1) {
		return nil, nil
	}
	for _, id := range b.Read {
		if t, m := st.Message(id); m != nil && m.Seq > st.Cleared {
			return t, m
		}
	}
	return nil, nil
}

// applyCleared forgets where the original request, the summary and the tasks lie that
// have ended: nothing of them is shown any more.
func (st *State) applyCleared(seq conversation.Seq) {
	st.Cleared = seq
	st.Origin, st.Compacted, st.Ended = nil, nil, nil
	if st.Heard != nil { // what ended tasks have said the model may say again
		st.Heard.Answers = slices.DeleteFunc(slices.Clone(st.Heard.Answers), func(a answer) bool {
			return !slices.ContainsFunc(st.Tasks, func(t *Task) bool { return t.N == a.Task })
		})
	}
}

func (st *State) applyCompacted(b conversation.ContextCompacted) {
	st.Compacted = &compaction{Upto: b.Upto}
	st.Ended = slices.DeleteFunc(st.Ended, func(t endedTasks) bool { return conversation.Seq(t.End) <= b.Upto })
	if len(st.Ended) == 0 {
		st.Ended = nil
	}
}

// TranscriptRanges are the parts of the log that a transcript is fed: what the last
// summary does not cover, or without one the window, and nothing before a clear; and
// before that the tasks which had not ended by then, and the original request.
func (st *State) TranscriptRanges() conversation.TranscriptRanges {
	p := conversation.TranscriptRanges{Voices: st.Voices, Cleared: st.Cleared, After: st.Head - min(st.Head, conversation.TranscriptWindow)}
	if c := st.Compacted; c != nil {
		p.After = c.Upto
	}
	p.After = max(p.After, st.Cleared)
	var ended []endedTasks // that had not ended by a summary or a clear
	if upto := p.After; st.Compacted != nil || upto == st.Cleared {
		for _, t := range st.Ended {
			if conversation.Seq(t.End) <= upto {
				continue
			}
			if ended = append(ended, t); t.Waited == nil {
				p.After = min(p.After, conversation.Seq(t.First)-1)
			}
		}
	}
	var own []span
	whole := func(n uint32, spans []span) {
		if conversation.Seq(spans[0].First) <= p.After {
			p.Tasks = append(p.Tasks, st.TaskID(n))
			own = append(own, spans...)
		}
	}
	for _, t := range ended {
		if t.Waited != nil {
			whole(t.Waited.Task, t.Waited.Events)
		}
	}
	for _, t := range st.Tasks {
		whole(t.N, t.Events)
	}
	p.Own = merged(own, p.After)
	if o := st.Origin; o != nil && o.Accepted <= p.After && !slices.Contains(p.Tasks, st.TaskID(o.Task)) {
		p.Origin = &conversation.Range{After: o.Accepted - 1, Before: o.Read + 1}
	}
	return p
}

// merged are the stretches as ranges of the log, each event once and none after last.
func merged(spans []span, last conversation.Seq) (ranges []conversation.Range) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.First, b.First) })
	for _, s := range spans {
		after, before := conversation.Seq(s.First)-1, min(conversation.Seq(s.Last), last)+1
		if n := len(ranges); n > 0 && after < ranges[n-1].Before {
			ranges[n-1].Before = max(ranges[n-1].Before, before)
			continue
		}
		if before > after+1 {
			ranges = append(ranges, conversation.Range{After: after, Before: before})
		}
	}
	return ranges
}

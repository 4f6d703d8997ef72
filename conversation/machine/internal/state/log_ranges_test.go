package state

import (
	"reflect"
	"testing"

	"parley/conversation"
)

// A task that ended long ago is fed whole to a transcript as long as a summary
// ends within it, also when so many tasks have ended since that their places are
// remembered together.
func TestEndedTasksOfLongAgo(t *testing.T) {
	st := &State{Head: 100_000}
	st.taskEnds(&Task{Events: []span{{1, 1}}}, 1000)
	for n := uint32(1); n <= 2*endedSpans; n++ {
		st.taskEnds(&Task{Events: []span{{n*1000 + 500, n*1000 + 500}}}, conversation.Seq(n*1000+510))
	}
	if len(st.Ended) != endedSpans {
		t.Errorf("%d places are remembered, not %d", len(st.Ended), endedSpans)
	}
	st.applyCompacted(conversation.ContextCompacted{Upto: 500})
	if after := st.TranscriptRanges().After; after != 0 {
		t.Errorf("a transcript begins behind event %d, in the middle of a task", after)
	}
}

// A task that waited while others came and went is fed its own events alone, while
// it is open and when it has ended, until a summary covers it.
func TestTaskThatWaited(t *testing.T) {
	waited := &Task{N: 1, Events: []span{{2, 9}}}
	st := &State{Key: conversation.SessionKey{Session: "s"}, Head: 50_000, Tasks: []*Task{waited}, Compacted: &compaction{Upto: 49_000}}
	want := conversation.TranscriptRanges{Own: []conversation.Range{{After: 1, Before: 10}}, Tasks: []conversation.TaskID{"t1-s"}, After: 49_000}
	if got := st.TranscriptRanges(); !reflect.DeepEqual(got, want) {
		t.Errorf("open: %+v, want %+v", got, want)
	}
	st.Tasks = nil
	st.taskEnds(waited, 49_500)
	if got := st.TranscriptRanges(); !reflect.DeepEqual(got, want) {
		t.Errorf("ended: %+v, want %+v", got, want)
	}
	st.applyCompacted(conversation.ContextCompacted{Upto: 49_800})
	if got := (st.TranscriptRanges()); len(got.Own) > 0 || got.After != 49_800 || st.Ended != nil {
		t.Errorf("summarised: %+v, ended %+v", got, st.Ended)
	}
}

// The list of a task's stretches is bounded, holds every event, and stays in order.
func TestStretches(t *testing.T) {
	var spans []span
	var seqs []conversation.Seq
	for i := range conversation.Seq(200) {
		seqs = append(seqs, 1+i*i)
		spans = extend(spans, 1+i*i)
	}
	if len(spans) != maxSpans {
		t.Errorf("%d stretches, not %d", len(spans), maxSpans)
	}
	ranges := merged(spans, 30_000)
	for i, r := range ranges {
		if r.Before <= r.After+1 || r.Before > 30_001 || i > 0 && r.After+1 < ranges[i-1].Before {
			t.Errorf("range %d of %+v", i, ranges)
		}
	}
	for _, seq := range seqs {
		held := false
		for _, r := range ranges {
			held = held || seq > r.After && seq < r.Before
		}
		if held != (seq <= 30_000) {
			t.Errorf("event %d is held: %v", seq, held)
		}
	}
}

package state

import (
	"testing"

	"parley/conversation"
)

// A task that ended long ago is fed whole to a transcript as long as a summary
// ends within it, also when so many tasks have ended since that their places are
// remembered together.
func TestEndedTasksOfLongAgo(t *testing.T) {
	st := &State{}
	st.taskEnds(&Task{First: 1}, 1000)
	for n := conversation.Seq(1); n <= 2*endedSpans; n++ {
		st.taskEnds(&Task{First: n*1000 + 500}, n*1000+900)
	}
	if len(st.Ended) != endedSpans {
		t.Errorf("%d places are remembered, not %d", len(st.Ended), endedSpans)
	}
	st.applyCompacted(conversation.ContextCompacted{Upto: 500})
	if from := st.Compacted.From; from != 0 {
		t.Errorf("a transcript begins behind event %d, in the middle of a task", from)
	}
}

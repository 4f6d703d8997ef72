package state

import (
	"fmt"
	"testing"

	"parley/conversation"
)

// A task that answers many messages remembers the words of its last answers alone.
func TestAnsweredWordsAreBounded(t *testing.T) {
	task := &Task{}
	for i := range 2 * maxAnswered {
		part := conversation.PartIndex(i)
		task.LastPart = &conversation.Part{Index: part, Text: fmt.Sprintf("answer number%d", i)}
		task.applyResolved(conversation.MessageResolved{How: conversation.ResolvedAnswered, Evidence: conversation.EvidenceOnly, Part: &part})
	}
	if n := len(task.Answered); n != maxAnswered || task.Answered[n-1].Part != 2*maxAnswered-1 {
		t.Errorf("%d answers are remembered, the last one %+v; want the last %d", n, task.Answered[n-1], maxAnswered)
	}
}

package state

import (
	"fmt"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/internal/receipts"
)

// A session remembers the words of the last parts that answered a message, and of none that
// only acknowledge one.
func TestAnswersAreBounded(t *testing.T) {
	st, task := New(conversation.SessionKey{Tenant: "t", Session: "s"}), &Task{N: 1}
	answer := func(i int, text string) {
		part := conversation.PartIndex(i)
		task.Messages = []*Message{{ID: "m1-s", Read: 1, Words: receipts.Of(fmt.Sprintf("question%d", i), receipts.MessageWords)}}
		task.LastPart = &conversation.Part{Index: part, Text: text}
		applyResolved(&st, task, conversation.MessageResolved{Message: "m1-s", How: conversation.ResolvedAnswered, Evidence: conversation.EvidenceOnly, Part: &part})
	}
	for i := range 2 * maxAnswers {
		answer(i, fmt.Sprintf("this is answer%d", i))
		answer(i, "Done, you're welcome!")
	}
	all := st.Heard.Told()
	if len(all) != maxAnswers {
		t.Fatalf("%d answers are remembered", len(all))
	}
	for i, a := range all {
		n := i + maxAnswers
		if !receipts.Equal(a.Words, receipts.Of(fmt.Sprintf("this is answer%d", n), 99)) || !receipts.Equal(a.Asked, receipts.Of(fmt.Sprintf("question%d", n), 99)) {
			t.Errorf("answer %d is %+v", n, a)
		}
	}
}

package wire_test

import (
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/wire"
)

// A store encodes what one commit brings, and decodes it when the log is read.
func ExampleAppendRecord() {
	record := conversation.Record{ID: "commit-1", Events: []conversation.Event{{
		Seq:  7,
		At:   time.Date(2026, 11, 21, 8, 9, 10, 0, time.UTC),
		Task: "t1-abc",
		Body: conversation.ToolFinished{Call: "c5", Status: conversation.CallOK, Summary: "42", Took: 12 * time.Millisecond},
	}}}

	stored := wire.AppendRecord(nil, record)

	back, err := wire.DecodeRecord(stored)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := back.Events[0]
	fmt.Println(len(stored), "bytes:", back.ID, e.Seq, e.Body.Kind(), e.Body.(conversation.ToolFinished).Summary)

	_, err = wire.DecodeRecord(stored[:20])
	fmt.Println(errors.Is(err, wire.ErrCorrupt))
	// Output:
	// 45 bytes: commit-1 7 tool_finished 42
	// true
}

package pebble_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"parley/conversation"
	"parley/persistence/pebble"
)

// A writer acquires the session and commits events under the epoch that it got;
// readers see them once Commit has returned.
func Example() {
	dir, err := os.MkdirTemp("", "parley-example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := pebble.Open(dir, pebble.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = db.Close() }()

	ctx := context.Background()
	key := conversation.SessionKey{Tenant: "default", Session: "s1"}
	head, err := db.Acquire(ctx, key, conversation.AcquireHow{Create: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	err = db.Commit(ctx, key, conversation.Commit{
		ID: "c1", Epoch: head.Epoch, After: head.Last,
		Events: []conversation.Event{{
			Seq: head.Last + 1, At: now, Task: "t1",
			Body: conversation.MessageAccepted{Message: "m1", ClientMsgID: "c1", Author: "alice", Text: "Hello", Disposition: conversation.Started},
		}},
		Summary: conversation.Summary{Title: "Hello", Owner: "alice", CreatedAt: now, Activity: now},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for record, err := range db.Records(ctx, key, conversation.Range{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, event := range record.Events {
			if message, ok := event.Body.(conversation.MessageAccepted); ok {
				fmt.Println(event.Seq, message.Author, "wrote", message.Text)
			}
		}
	}
	// Another writer takes the session over: the first one is fenced off.
	if _, err := db.Acquire(ctx, key, conversation.AcquireHow{}); err != nil {
		fmt.Println(err)
		return
	}
	err = db.Commit(ctx, key, conversation.Commit{ID: "c2", Epoch: head.Epoch, After: 1})
	fmt.Println(errors.Is(err, conversation.ErrFenced))
	// Output:
	// 1 alice wrote Hello
	// true
}

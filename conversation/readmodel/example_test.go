package readmodel_test

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/readmodel"
)

// What became of one message: fold the events behind its acceptance.
func ExampleOutcome() {
	o := readmodel.NewOutcome("m1-s", "t1-s")
	for seq, body := range []conversation.EventBody{
		conversation.PartialResponse{Part: conversation.Part{Message: "p1-s", Text: "One moment."}},
		conversation.Response{Part: conversation.Part{Message: "p2-s", Text: "It is noon.", InReplyTo: "m1-s"}},
		conversation.MessageResolved{Message: "m1-s", How: conversation.ResolvedAnswered},
	} {
		o.Add(&conversation.Event{Seq: conversation.Seq(seq + 2), Task: "t1-s", Body: body})
	}
	fmt.Println(o.How)
	for _, p := range o.Answers() {
		fmt.Println(p.Part.Text)
	}
	// Output:
	// answered
	// It is noon.
}

// A page of a conversation, one item a message and a part.
func ExampleHistory() {
	h := readmodel.NewHistory(50, 1<<20)
	for seq, body := range []conversation.EventBody{
		conversation.MessageAccepted{Message: "m1-s", Author: "ann", Text: "What time is it?"},
		conversation.MessageEdited{Message: "m1-s", Text: "What time is it in Rome?"},
		conversation.Response{Part: conversation.Part{Message: "p1-s", Text: "Noon."}},
	} {
		h.Add(&conversation.Event{Seq: conversation.Seq(seq + 1), Task: "t1-s", Body: body})
	}
	for _, e := range h.Page {
		if e.Said != nil {
			fmt.Printf("%d %s: %s\n", e.Seq, e.Said.Author, e.Said.Text)
		} else {
			fmt.Printf("%d final %v: %s\n", e.Seq, e.Final, e.Part.Text)
		}
	}
	// Output:
	// 1 ann: What time is it in Rome?
	// 3 final true: Noon.
}

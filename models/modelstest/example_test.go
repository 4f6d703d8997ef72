package modelstest_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"parley/conversation"
)

// echo is a model that says what the user said last, word by word.
type echo struct{}

var _ conversation.Model = echo{}

func (echo) Label() string { return "echo" }

func (echo) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		text := ""
		for _, entry := range r.All() {
			if entry.Role == conversation.RoleUser {
				text = entry.Text
			}
		}
		if r.Stream {
			for word := range strings.FieldsSeq(text) {
				if err := ctx.Err(); err != nil {
					yield(conversation.Output{}, err) // a call that was cancelled ends with the context's error
					return
				}
				if !yield(conversation.Output{Delta: word + " "}, nil) {
					return // the caller reads no more
				}
			}
		}
		// The last output has the whole answer. A stream that ends without it counts as cut.
		yield(conversation.Output{Done: &conversation.ModelAnswer{
			Items: []conversation.Item{{Kind: conversation.ItemText, Text: text, Streamed: r.Stream}},
			Usage: conversation.Usage{InputTokens: len(text) / 4, OutputTokens: len(text) / 4, Estimated: true},
		}}, nil)
	}
}

// A model is a label and a stream of outputs.
func Example_model() {
	request := conversation.Request{
		Session: "s1", Stream: true,
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Text: "Stop the pump."}},
	}
	var model conversation.Model = echo{}
	for out, err := range model.Stream(context.Background(), request) {
		switch {
		case err != nil:
			fmt.Println("failed:", err)
		case out.Done != nil:
			fmt.Printf("whole answer: %q\n", out.Done.Items[0].Text)
		default:
			fmt.Printf("delta: %q\n", out.Delta)
		}
	}
	// Output:
	// delta: "Stop "
	// delta: "the "
	// delta: "pump. "
	// whole answer: "Stop the pump."
}

package scripted_test

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/models/scripted"
)

// The scripted model follows the directives in a message, one a line: here it calls a
// tool, and says something when the result is there.
func ExampleModel_Stream() {
	model, err := scripted.New(scripted.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := conversation.Request{
		Session: "s1", Task: "t1-s1", Agent: conversation.Coordinator, Step: 1, Attempt: 1, Stream: true,
		Entries: []conversation.Entry{{
			Role: conversation.RoleUser, Task: "t1-s1", Message: "m1-s1", Text: "/tool clock {}\n/say It is late.",
		}},
		Open:  []conversation.OpenMessage{{Ordinal: 1, Message: "m1-s1", Excerpt: "/tool clock {}"}},
		Tools: []conversation.ToolSpec{{Name: "clock"}},
	}
	for range 2 {
		for out, err := range model.Stream(context.Background(), request) {
			if err != nil {
				fmt.Println("failed:", err)
			} else if out.Done != nil {
				item := out.Done.Items[0]
				fmt.Println(item.Tool + item.Args + item.Text)
				// The engine runs the call and asks again, with the answer and the result in the transcript.
				request.Step++
				request.Entries = append(request.Entries,
					conversation.Entry{Role: conversation.RoleAssistant, Task: "t1-s1", ResponseID: out.Done.ResponseID, Items: out.Done.Items},
					conversation.Entry{Role: conversation.RoleTool, Task: "t1-s1", CallID: item.ID, Text: "23:59"})
			}
		}
	}
	// Output:
	// clock{}
	// It is late.
}

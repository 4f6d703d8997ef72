package fallback_test

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/models/fallback"
	"parley/models/modelstest"
)

// A model that cannot answer gives way to its fallback at once, and the answer says
// who gave it.
func ExampleNew() {
	own := &modelstest.Fake{Name: "large", Turns: []modelstest.FakeTurn{{Err: modelstest.Failing(true, 0)}}}
	other := &modelstest.Fake{Name: "small", Turns: []modelstest.FakeTurn{{Says: "Hello."}}}
	model, err := fallback.New("large", own, fallback.Options{Fallback: []conversation.Model{other}, MaxAttempts: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	heard := modelstest.Ask(context.Background(), model, conversation.Request{Session: "s1", Attempt: 1, Stream: true})
	fmt.Println(heard.Text, "said by", heard.Done.Model)
	fmt.Println("the route's label is", model.Label())
	// Output:
	// Hello. said by small
	// the route's label is large
}

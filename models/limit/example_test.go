package limit_test

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/models/limit"
	"parley/models/modelstest"
)

// At most two calls of this model run at once; more wait for their turn.
func ExampleNew() {
	backend := &modelstest.Fake{Name: "local", Turns: []modelstest.FakeTurn{{Says: "Hello."}}}
	model, err := limit.New(backend, limit.Limits{MaxConcurrent: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	heard := modelstest.Ask(context.Background(), model, conversation.Request{Session: "s1", Stream: true})
	fmt.Println(heard.Text)
	fmt.Printf("%+v\n", model.Stats())
	// Output:
	// Hello.
	// {Running:0 Waiting:0 Calls:1 Waited:0 GaveUp:0}
}

package machinetest_test

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/persistence/persistencetest"
)

// A question, an answer and the clock: the test plays the user, the model and
// the time; the machine decides.
func Example() {
	w := machinetest.New(persistencetest.NewMemory())
	key := conversation.SessionKey{Tenant: "default", Session: "s1"}
	_, _ = w.Do(key, conversation.Create{Owner: "ann"})
	_, _ = w.Do(key, conversation.Say{Author: "ann", ClientMsgID: "a", Text: "Book a table"})

	s := w.Session(key)
	s.Answer(machinetest.Call(conversation.ToolAsk, `{"question":"For how many?"}`))
	fmt.Println(s.Machine.View().Tasks[0].Status)

	_, err := w.Do(key, conversation.Reply{Author: "ann", ClientMsgID: "b", Task: "t1-s1", Text: "two"})
	fmt.Println(err)
	s.Answer(machinetest.Text("Booked."))
	for _, e := range s.Events() {
		if b, ok := e.Body.(conversation.Response); ok {
			fmt.Println(e.At.Format("05.000"), b.Text)
		}
	}
	_, err = w.Do(key, conversation.Edit{By: "ann", Message: "m1-s1", Text: "Book two"})
	fmt.Println(err)
	// Output:
	// AWAITING_RESPONSE
	// <nil>
	// 00.005 Booked.
	// conflict: the message does not wait any more
}

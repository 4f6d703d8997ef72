package fanout_test

import (
	"context"
	"fmt"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// Follow a session from the first event on, as values and as the bytes that
// clients are sent.
func ExampleHub_Subscribe() {
	hub := fanout.NewHub(nil)
	engine := gatewaytest.NewSessions(hub) // the engine's place in tests
	defer engine.Close()
	key := engine.Open("s1", "ann")
	engine.Commit(key, conversation.Event{Body: conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "Hello!"}}})

	ctx := context.Background()
	sub, state, err := hub.Subscribe(ctx, engine, protocol.DefaultLimits(), fanout.Options{Key: key, As: "ann", Since: 0, Values: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sub.Close()
	fmt.Println("the log is", state.Log)
	for synced := false; !synced; {
		d, err := sub.Next(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range d.Events { // keep e.Seq when it is dealt with: the next Since
			fmt.Println(e.Seq, e.Body.Kind())
		}
		synced = d.Synced
	}
	// Output:
	// the log is log-1
	// 1 session_created
	// 2 partial_response
}

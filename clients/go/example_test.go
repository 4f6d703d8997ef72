package parley_test

import (
	"context"
	"fmt"
	"log"

	parley "parley/clients/go"
)

// Say something and show the answer while it is written.
func Example() {
	ctx := context.Background()
	client, err := parley.Dial(ctx, "http://127.0.0.1:8080", parley.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Create(ctx, parley.NewSession{})
	if err != nil {
		log.Fatal(err)
	}
	events := client.Follow(session, parley.Start())
	receipt, err := client.Send(ctx, parley.Message{Session: session, Text: "What can you do?"})
	if err != nil {
		log.Fatal(err)
	}
	var drafts parley.Drafts
	for event, err := range events.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if drafts.Apply(event) {
			fmt.Println(drafts.All()) // what is being written
		}
		if resolved, ok := event.Body.(*parley.MessageResolved); ok && resolved.Message == receipt.Message {
			return
		}
	}
}

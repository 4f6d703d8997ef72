package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// prints: one two three
func main() {
	ctx := context.Background()
	url := cmp.Or(os.Getenv("PARLEY_URL"), "http://127.0.0.1:8080")
	client := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(cmp.Or(os.Getenv("PARLEY_KEY"), "none")))

	response, err := client.Responses.New(ctx, responses.ResponseNewParams{
		Model: "parley", Background: openai.Bool(true),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("/say one two three")},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Whoever was cut off goes on with StartingAfter, the sequence number of the last event.
	events := client.Responses.GetStreaming(ctx, response.ID, responses.ResponseGetParams{})
	for events.Next() {
		fmt.Print(events.Current().AsResponseOutputTextDelta().Delta)
	}
	fmt.Println()
	if events.Err() != nil {
		log.Fatal(events.Err())
	}
}

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	parley "parley/clients/go"
)

func main() {
	ctx := context.Background()
	server := os.Getenv("PARLEY_SERVER")
	if server == "" {
		server = "http://127.0.0.1:8080"
	}
	if err := ask(ctx, server, strings.Join(os.Args[1:], " ")); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, server, text string) error {
	token := func(context.Context) (string, error) { return os.Getenv("PARLEY_TOKEN"), nil }
	client, err := parley.Dial(ctx, server, parley.Options{Token: token})
	if err != nil {
		return err
	}
	defer client.Close()
	session, err := client.Create(ctx, parley.NewSession{})
	if err != nil {
		return err
	}
	events := client.Follow(session, parley.Start())
	receipt, err := client.Send(ctx, parley.Message{Session: session, Text: text})
	if err != nil {
		return err
	}
	for event, err := range events.All(ctx) {
		if err != nil {
			return err
		}
		switch b := event.Body.(type) {
		case *parley.PartialResponse:
			fmt.Println(b.Text)
		case *parley.Response:
			if !b.Promoted { // else it was printed as a part
				fmt.Println(b.Text)
			}
		case *parley.Question:
			fmt.Println("?", b.Text)
		case *parley.MessageResolved:
			if b.Message == receipt.Message {
				return nil
			}
		}
	}
	return nil
}

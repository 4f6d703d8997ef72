// The service that Restate calls: a conversation as a virtual object. Its Message does
// what a turn of parley does, durably: it reads the state, stores the message, makes
// one journalled call of a model that answers at once, and stores the answer.
package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

// Conversation is the virtual object; its key is the session.
type Conversation struct{}

// Message is the turn: get, set, one journalled Run, two sets.
func (Conversation) Message(ctx restate.ObjectContext, text string) (string, error) {
	seq, err := restate.Get[int](ctx, "seq")
	if err != nil {
		return "", err
	}
	restate.Set(ctx, "inbox", text)
	answer, err := restate.Run(ctx, func(restate.RunContext) (string, error) { return answerTo(text), nil })
	if err != nil {
		return "", err
	}
	restate.Set(ctx, "last", answer)
	restate.Set(ctx, "seq", seq+1)
	return answer, nil
}

// Light is the same without the journalled step: after a crash the model would be asked again.
func (Conversation) Light(ctx restate.ObjectContext, text string) (string, error) {
	seq, err := restate.Get[int](ctx, "seq")
	if err != nil {
		return "", err
	}
	answer := answerTo(text)
	restate.Set(ctx, "last", answer)
	restate.Set(ctx, "seq", seq+1)
	return answer, nil
}

func answerTo(text string) string { return "you said " + text }

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve prints the address of a free port and serves on it until it is killed.
func serve() error {
	quiet := slog.NewTextHandler(io.Discard, nil) // its log of each call would be measured, too
	handler, err := server.NewRestate().WithLogger(quiet, true).Bind(restate.Reflect(Conversation{})).Handler()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // as the kit's own Start does
	return (&http.Server{Handler: handler, Protocols: &protocols}).Serve(listener)
}

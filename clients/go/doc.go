// Package parley is a client of a parley server, for Go programs: it speaks the
// protocol v1 over one WebSocket and does by itself what every client has to do.
//
// A [Client] keeps a connection. When it ends, the client connects again, after a
// pause that grows and is random, unless the server has said that it must not come
// back. What was sent and is not acknowledged is sent again with the same id, so it
// takes effect once. What is followed goes on behind the last event that was seen:
// no event is missing and none comes twice.
//
//	client, err := parley.Dial(ctx, "http://127.0.0.1:8080", parley.Options{})
//	session, err := client.Create(ctx, parley.NewSession{})
//	events := client.Follow(session, parley.From{})
//	_, err = client.Send(ctx, parley.Message{Session: session, Text: "hello"})
//	for event, err := range events.All(ctx) { … }
//
// All methods may be called from several goroutines. A command waits for a
// connection and for its turn (the server's limits are kept), so its context should
// have a deadline where nobody can wait. Refusals of the server are an [*Error].
//
// A message names files that were uploaded to its session before: [Client.Upload].
//
// The package imports nothing of the server.
package parley

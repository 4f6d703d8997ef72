// Command ask says one thing to a server and shows the answers:
//
//	go run ./clients/go/examples/ask What can you do?
//
// PARLEY_SERVER is the server's address, PARLEY_TOKEN a key if it wants one.
package main

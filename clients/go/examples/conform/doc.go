// Command conform is the Go client as "parley-bench conform" starts it: what to do
// comes in, and what was seen goes out, as JSON, one object a line.
//
//	go build -o /tmp/go-client ./clients/go/examples/conform
//	parley-bench conform /tmp/go-client
package main

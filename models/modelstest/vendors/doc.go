// Package vendors plays the services of twelve vendors, each with the refusals that the
// vendor documents and in the shapes in which it answers.
//
// All is the list. Start runs one on the loopback: it lists its models, wants its key in
// the vendor's header, refuses what the vendor refuses in the vendor's words, and answers
// each request that it takes with the next Move. It remembers what it gave out (ids of
// calls, reasoning, signatures), because several vendors want that back.
//
// chat.go, responses.go and messages.go write answers; rules.go has what each vendor
// refuses, a function with a comment for each rule; schema.go the dialects of JSON Schema.
// The rules of the wire formats themselves are those of package modelstest.
//
// Only tests import it. A stand-in ends with its test.
package vendors

// Package attached is about what is attached to messages: files, known by the hash of what
// is in them. It holds words and strings, no state.
//
// A File is what a message says of a file. Lines are what a model is told of files that it
// is not given; Escape keeps any text from having such a line.
package attached

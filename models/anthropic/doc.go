// Package anthropic asks models over Anthropic's Messages API: Anthropic itself, or a
// gateway that speaks it.
//
// New checks Options and makes a Model, which is a conversation.Model. cmd/parley
// makes one for each [[models]] block of provider "anthropic" that is used, and the
// engine calls Stream from as many goroutines as it likes.
//
// A request (messages.go) holds the whole transcript, shaped as the API wants it: the
// user begins and ends, the roles alternate, and results stand first in the message
// that follows their calls. An answer (assembly.go) is put together from the frames of
// a stream or from a whole body; a stream that ends without message_stop was cut and
// is an error, never an answer. httpmodel sends, watches the bytes and turns failures
// into *conversation.ModelError.
//
// Signed thinking is kept in Item.Opaque and given back to the same model within the
// same task, where the same stands before it as when it was made (prefix.go): newer
// models refuse it elsewhere. Where Extra asks older ones to think, all of it goes back,
// and where an answer was begun without it, the next request switches thinking off,
// because the API would refuse it.
//
// The package starts no goroutine. Tests compare every byte of its requests with
// testdata/requests, and Anthropic's SDK reads them there as a second opinion.
package anthropic

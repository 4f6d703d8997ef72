// Package limit bounds how often one model is asked, and how many of its calls run at
// once.
//
// A Model wraps a conversation.Model and is one itself. All who ask the wrapped model,
// as their own or as a fallback, must go through the same Model: cmd/parley makes one
// for each [[models]] block with max_concurrent or rate. A call that has to wait gives
// signs of life, so that the engine does not give it up, and keeps its place in the
// order of arrival. A Model may be used by any number of goroutines and starts none.
package limit

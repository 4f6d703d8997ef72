// Package fallback asks other models when one fails.
//
// A Model wraps a route's own model and its fallbacks, and is a conversation.Model
// itself. cmd/parley makes one for each [[models]] block with a fallback. Which model an
// attempt begins with follows from the attempt's number, so that a restarted
// server goes on with the same one; see Model for the rule. One that wants to be left
// alone for longer than anybody waits is passed over until then. An answer of another model
// than the route's own has its name in ModelAnswer.Model. A Model may be used by any
// number of goroutines and starts none.
package fallback

// Package window cuts requests for a model that holds less than others are shown.
//
// A Model wraps a conversation.Model and is one itself; cmd/parley makes one for each
// [models.NAME] block with context. What an agent's own model is shown was cut by the
// engine already; the requests of a fallback are cut here, for that model alone, by the
// same rules (package conversation/fit), and so are those of summaries. A Model may be
// used by any number of goroutines and starts none.
package window

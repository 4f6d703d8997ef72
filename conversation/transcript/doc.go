// Package transcript makes what a model is shown of a session from the session's
// events: the entries of a request, within the budget of tokens, and the request
// for a summary when the conversation has become long.
package transcript

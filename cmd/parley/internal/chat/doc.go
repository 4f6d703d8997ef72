// Package chat is "parley chat": a client of a running server for a terminal, for
// pipes and for scripts. It knows the server by its protocol only.
//
// Nothing that a model, a title or another user wrote reaches a terminal before
// [Clean] has taken the control characters out of it.
package chat

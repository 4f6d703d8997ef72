// Package author is about the names of those who speak in a session: strings, without any
// state.
//
// Name is what a user may be called: short, and of nothing but what one sees. It is
// stored with each message.
package author

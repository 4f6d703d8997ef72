// Package author is about the names of those who speak in a session: strings, without any
// state.
//
// Name is what a user may be called: short, and of nothing but what one sees. It is
// stored with each message. Header is the line that tells a model who has said what follows
// it, and Escape keeps any text from having such a line; Voices say from when on there are
// headers at all.
package author

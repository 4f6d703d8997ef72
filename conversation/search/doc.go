// Package search says what a search finds: which words a text has, whether all words of a
// query are among them, and what of a text is shown around the first one.
//
// Texts and queries are folded in the same way, here and nowhere else, so that all stores
// find the same: no case, no accents, no punctuation, one space between words. A word of a
// query is found where a word begins with it. Scripts without spaces between words (Chinese,
// Japanese, Thai, Lao, Khmer, Burmese) are found anywhere.
//
// An Index keeps the folded texts of a session's messages, newest first, and by their words,
// so that a search need not read its log. It is derived: it may be behind the log or lost, never ahead of it
// or of another session.
package search

// Package receipts judges whether a text that names no message answers one, and by
// what evidence (docs/MACHINE.md, section 8). A guess is none: where nothing proves
// that a message was answered, it stays open.
//
// Everything here is a pure function of words. A word counts by its hash, so that
// what a session must remember of a text is short and says nothing.
package receipts

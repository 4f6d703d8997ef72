// Package wordblock writes and reads blocks: of some texts of one session, which terms they
// have, sorted, and the places of the texts that have each of them. A term is found without
// reading the block: every so many terms stand whole, and those are searched by halves.
//
// It is pure. What it reads may be damaged: that is an error, and never a panic.
package wordblock

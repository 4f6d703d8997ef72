// Package find searches the messages of the sessions that a user may read.
//
// It goes through the sessions in the order of the list, leaves out those that the user may
// not read before anything of them is looked at, and merges what is found by time, the newest
// first. Where an index keeps a session it reads that; what the index does not have yet it
// reads in the log, so that what is found never depends on how far the index is.
//
// A search is bounded: it looks at so many sessions and texts, and then answers with what it
// has and a cursor, which goes on behind all that was looked at. The sessions of one such
// window are in exact order; the next window has the sessions that were active before them.
package find

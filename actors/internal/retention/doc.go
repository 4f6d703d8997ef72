// Package retention erases the sessions that nobody has used for a time
// (retention.max_age).
//
// What it does cannot be undone, and the time of a machine can be wrong: a virtual
// machine or a small computer may be years off until it has asked the network. So
// a Sweeper goes by the clock on the wall only as far as other things agree:
//
//   - In the first pause after a start nothing is erased.
//   - After a pause in which the wall's clock and the process's own (which only
//     counts on) have gone different ways, nothing is erased.
//   - Until the wall's clock has been steady for a day, a session is only as old
//     as the store can tell: at the start it was as late as its newest session
//     was used, and from there on the process's own clock counts.
//   - More than a tenth of all sessions are not erased at once: that is reported,
//     and done after one more pause with a steady clock. A server that was off for
//     months, and one that is told for the first time to erase, so come to the
//     right state; a clock that will be put right has time for it.
//
// A Sweeper reads the list in pages and keeps one page in memory. It belongs to the
// engine, whose goroutine it is (Run); the package owns none.
package retention

// Package exchange shows sessions to the ways in that speak another protocol than ours, in
// words that all of them know: a text begins, grows and ends, something is asked, a call runs,
// a task rests. Each of these is a [Note].
//
// A [Fold] makes notes of a session's events, and of what streams beside them. It is a pure
// function of these: nothing is kept anywhere, so what a client is told after a restart is
// made of the log again. Every note has a [Number]. The numbers of a session only grow, and the
// same note has the same number whenever it is made; a client that names the last number that it
// has seen is told the rest, also in the middle of a text.
//
// A [Follower] is a subscription of the fan-out with a fold behind it. [Exchange.Notes] makes
// the notes of what is stored, without waiting for more. A [Run] tells from notes how the work
// on one message goes, and when a client that waits for it may be answered.
//
// What clients want becomes the same commands as everywhere: [Exchange.Say],
// [Exchange.Answer], [Exchange.Cancel]. What a session is set to with what is said is
// [Exchange.Set], which can be taken back when that is refused.
//
// The package starts no goroutine. A Fold, a Run and a Follower belong to one goroutine.
package exchange

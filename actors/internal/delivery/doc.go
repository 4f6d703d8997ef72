// Package delivery carries commands from one session to another of the same tree:
// in order, and each one at least once. Commands are idempotent, so twice does no
// harm.
//
// A Queue has one receiver. It sends one delivery at a time and waits until the
// receiver has acknowledged it, which is after the receiver's commit. A refusal
// that may pass (busy, unavailable) has the delivery repeated after a pause that
// grows; one for good ends it and is handed to its Done. Low-priority deliveries
// let others pass: they add work and may be refused for long, and what answers or
// stops something must not wait for them.
//
// The queue belongs to one actor. Its results come back through the mailbox of
// that actor (Post), which passes every message it does not know to Handle. A queue
// that waits to repeat has one timer.
//
// A Repeater is the same for single commands, and for code that is no actor: one
// bounded queue for all receivers, so that a store that comes back after an outage
// is not met by everybody at once. Its goroutine is the caller's (Run). A Pace
// keeps attempts apart, also those of others.
//
// The package owns no goroutine.
package delivery

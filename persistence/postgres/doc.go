// Package postgres is the clustered store: PostgreSQL behind conversation.Store, and the
// list of a cluster's members beside it.
//
// Prepare looks at a database and makes or upgrades its tables; its errors, and those of
// Open, are *Refusal with a sentence for the person at the terminal. Open opens the store.
//
// Two writers join the commits that wait into transactions of one round trip each: it locks
// the sessions in one order, then one statement writes those commits whose epoch, last
// sequence and keys fit, and says of each what it found. A transaction whose answer was lost
// is sent again until patience runs out: epoch and sequence let it be written once.
//
// Rules:
//   - Epoch and expected sequence alone keep two writers apart, in the database; who is a
//     member, and whose lease has run out, only says who may take a session over.
//   - Time is the database's. The clocks of nodes may differ.
//   - What channels remember is erased by a trigger, in the transaction of the session's
//     erasure; a program that writes it holds what that trigger waits for.
//   - A DSN holds a password: no log line, error or metric has one.
package postgres

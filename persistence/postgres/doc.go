// Package postgres is the clustered store: PostgreSQL behind conversation.Store, and the
// list of a cluster's members beside it.
//
// Prepare looks at a database and makes or upgrades its tables; its errors are *Refusal
// with a sentence for the person at the terminal.
//
// Rules:
//   - Epoch and expected sequence alone keep two writers apart, in the database; who is a
//     member, and whose lease has run out, only says who may take a session over.
//   - Time is the database's. The clocks of nodes may differ.
//   - A DSN holds a password: no log line, error or metric has one.
package postgres

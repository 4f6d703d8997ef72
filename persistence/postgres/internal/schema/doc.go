// Package schema makes and upgrades the tables of the clustered store.
//
// Migrations are the files below migrations, embedded, each applied once, in order, in a
// transaction of its own. Nodes that start at the same time apply them once: the one that
// has the lock does, the others wait. The lock is a row with a lease and not PostgreSQL's
// advisory lock, which a pooler in transaction mode would leave behind.
//
// Rules, which a test holds as far as it can:
//   - A migration that was released never changes.
//   - Expand and contract: a release adds what it needs, and programs of the release before
//     go on beside it. What nothing needs any more is taken away one release later, by a
//     migration that also writes into schema_oldest the number of the oldest schema whose
//     programs can still work with what is left.
//   - A program works with a newer schema as long as schema_oldest is not above its own.
//   - There is no way down: a release goes back by running the older program.
package schema

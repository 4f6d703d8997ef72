// Package blobtable keeps what is attached to messages in PostgreSQL: a blobs.Store, in the
// tables of migrations/0008_blobs.sql.
//
// Every statement of a transaction sees what others have committed before it (read
// committed), so who must not be surprised holds a row:
//
//   - Put holds its session for key share, from before it looks until it is stored. An
//     erasure takes the row for update, so it waits for Put, or Put finds no session. A
//     commit takes it for no key update, so neither waits for the other.
//   - Sweep first holds the sessions for no key update, in the order of all that write, and
//     then takes away what is still on loan. A commit that names a file holds its session in
//     the same way before it looks: it finds the file and keeps it, or finds it gone.
//   - Renew and Put change the loan of a file in one statement, which looks at the row again if
//     another one has changed it meanwhile.
//
// So Sweep may run on all nodes at the same time. Naming names the files of a commit;
// persistence/postgres runs it within the statement that writes. The package owns no goroutine.
package blobtable

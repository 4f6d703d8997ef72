// Package wordtable keeps what can be found of sessions in PostgreSQL: a search.Guide, in the
// tables of migrations/0009_search.sql.
//
// Which sessions have a word, an index of their words says (GIN), by the words as package search
// makes them: no dictionary of the server has a part in it. The first sessions of a search are
// asked one by one, since a word that many have would bring the rows of all; then all at once.
//
// One node at a time brings the tables up to the logs: that which has said so last, as long as
// it goes on to say it. If two do, each news is taken once: who keeps it changes the row that
// says how far the log is taken. A session is held for key share meanwhile, so it cannot be
// erased in between. The package owns no goroutine.
package wordtable

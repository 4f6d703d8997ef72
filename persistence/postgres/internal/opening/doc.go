// Package opening decides whether a program may work with a PostgreSQL database: whether it
// can be reached, is new enough, can be written to, and holds our tables as this program
// knows them. What speaks against it is a *Refusal with a code and a sentence.
//
// A DSN may hold a password. Nothing here puts a DSN, or the library's words about one, into
// an error: sentences name the server, the database and the user only.
package opening

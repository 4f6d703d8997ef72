// Package pgtest starts PostgreSQL servers for tests: real ones, each with a new
// directory and a free port of 127.0.0.1, gone when the test is.
//
// A test that needs an empty database takes Database; all of a package share one server,
// which Main ends:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
//
// A test that stops, freezes or replaces its server takes Open, with Standby for a second
// one that follows it. A program that is no test begins with Start.
//
// PostgreSQL does not run as root: where the test does, its servers run as the user
// postgres. Passwords are asked for, so that a DSN holds a secret as it does elsewhere,
// and databases sort texts as people do, not by bytes, so that an order that a store must
// say for itself is not there by chance. A server dies with the process that started it.
package pgtest

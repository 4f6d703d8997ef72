// Package persistence is the place of the stores: one package for each kind of
// store, all behind the interfaces in package conversation.
//
//   - persistence/pebble is the embedded store: one process, one directory.
//   - persistence/postgres is the clustered store: any number of nodes, one PostgreSQL.
//   - persistence/move carries all of one store to another one.
//   - persistence/clustertest is the suite of stores that several nodes share.
//   - persistence/persistencetest is the suite that every store must pass, and
//     Memory, the store that is easy to read and that tests use.
//
// The two stand beside each other and share no code, only the suite. Packages here
// import conversation, its wire encoding, metrics and persistence/move; the stores never
// import each other. Only cmd/parley names a concrete store; every other package takes
// the interfaces.
//
// This package itself holds no code.
package persistence

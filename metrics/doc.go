// Package metrics holds the name of every metric and nothing else: a small
// struct of collectors for each room, and the registry that they live in.
//
// Names start with parley_, use base units, and have closed label sets. No label
// ever holds a session, a user or a text. docs/METRICS.md lists them all.
//
// A room that counts as it goes is given a struct made by NewActors, NewGateway
// or NewPersistence. Models and tools know no metrics: they count by themselves,
// and the Watch functions read their numbers at each scrape. Nothing here starts
// a goroutine; everything may be used from any.
package metrics

// Package metrics holds the name of every metric: a small struct of collectors for
// each room, the registry that they live in, and what they need to count with (the
// price of a model).
//
// Names start with parley_ and use base units. A label's values are a closed set, or
// names of tenants, tools, agents and models, of which there are only so many
// (Bounded). No label ever holds a session, a user or a text. docs/METRICS.md lists
// them all.
//
// A room that counts as it goes is given a struct made by NewActors, NewGateway
// or NewPersistence. Models and tools know no metrics: they count by themselves,
// and the Watch functions read their numbers at each scrape. Nothing here starts
// a goroutine; everything may be used from any.
package metrics

// Package scripted is the model that needs no network and no key: the default, the demo
// and the double of the tests. It follows rules and has no intelligence.
//
// A user's message may hold directives, one a line, such as "/say Hello" or
// "/tool clock {}" (directive.go lists them); other messages are answered by the rules
// of script.toml (script.go), which Options.Script may replace.
//
// Every answer is a pure function of the request, so that a crash, a replay and a retry
// give the same answers. The model remembers nothing: it reads from the transcript what
// was already done (reading.go), and then decides the next step (answer.go). For that
// the ids of its answers and items name the message and the line that they belong to.
//
// A Model may be used by any number of goroutines and starts none. Only Options.TokenDelay
// makes it use the clock.
package scripted

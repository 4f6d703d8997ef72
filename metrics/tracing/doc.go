// Package tracing makes OpenTelemetry spans of what has become durable in
// sessions, and sends them to a collector. names.go has the name of every span
// and attribute.
//
// A task may wait for days, move to another node, or go on after the process was
// killed, so no span is kept open and nothing about spans is stored: the ids of
// traces and spans are hashes of what is in the log anyway (ids.go, ADR 28). The
// node that sees the end of a thing sends its span, with the start that it
// remembers or that the event tells; a span whose start it did not see says so.
//
// A Tracer belongs to the process; a nil one is tracing that is off, and costs a
// comparison. A Session belongs to the actor of its session, as the observer of
// metrics does, and is used by it alone; it is forgotten with it. Nothing here
// ever waits for the collector: what it does not take in time is dropped and
// counted. The Tracer owns one goroutine, the library's batch processor, which
// ends with Close.
package tracing

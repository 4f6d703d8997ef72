// Package tracingtest is a collector for tests: it takes what the exporter of traces
// sends, as OTLP over HTTP, and keeps the spans.
//
// A Receiver is an http.Handler, to be served at an address. Pipe serves it in memory,
// for tests in a synctest bubble: a socket is not something that a bubble can wait for.
package tracingtest

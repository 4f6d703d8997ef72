// Package actorstest holds the fakes that tests of sessions are written with: a
// model that answers when the test says so, a tool, and a publisher that remembers.
// They start no goroutine and sleep nowhere, so they may be used inside a
// testing/synctest bubble.
package actorstest

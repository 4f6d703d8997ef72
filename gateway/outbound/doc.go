// Package outbound posts to addresses outside what others asked to be told: a body, once, at an
// address that may be connected to, signed as Standard Webhooks says
// (https://www.standardwebhooks.com).
//
// A [Poster] follows no redirects, knows no proxy and reads little of an answer. What it says of
// a failure names no address: that may hold a token. When to try again is for the caller to say;
// [Pauses] are the times to wait.
//
// The package starts no goroutine. A Poster may be used from any.
package outbound

// Package lanes knows what one socket tells, so that a response has the name that its client has
// given it, and one that comes by itself is told once.
//
// It starts no goroutine; a Lanes may be used from any.
package lanes

// Package lanes has what belongs to one session happen one after the other, in the order
// in which it came, without a goroutine of its own.
package lanes

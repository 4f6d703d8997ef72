// Package soak makes and erases sessions at a steady rate, for as long as one likes,
// and says what of it is left in the server: its rate, processor time a cycle,
// goroutines and memory should be the same after the last thousand as after the first.
package soak

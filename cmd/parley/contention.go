package main

import "runtime"

// How much of the waiting is recorded: one of so many waits for a lock, and waits of
// all kinds by their length, in nanoseconds, one that long or longer for sure.
const (
	mutexesRecorded = 10
	waitsRecorded   = 100_000
)

// recordContention fills /debug/pprof/mutex and /debug/pprof/block until the function
// that it returns is called. What is recorded costs a stack trace each, so that it is
// off but for a measurement.
func recordContention(on bool) (stop func()) {
	if !on {
		return func() {}
	}
	before := runtime.SetMutexProfileFraction(mutexesRecorded)
	runtime.SetBlockProfileRate(waitsRecorded)
	return func() {
		runtime.SetMutexProfileFraction(before)
		runtime.SetBlockProfileRate(0)
	}
}

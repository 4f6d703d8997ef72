package actors

import "runtime/debug"

// What the engine calls may panic: followers, the log, a store. None of that may
// end a session or the process: who calls out here only tells something, and nobody
// waits for it. A panic is logged and counted.

// panicked logs and counts a panic.
func (e *Engine) panicked(what string, r any) {
	e.m.Panics.Inc()
	e.log.Error("panic in "+what, "panic", r, "stack", string(debug.Stack()))
}

// guarded runs f and survives a panic in it.
func (e *Engine) guarded(what string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			e.panicked(what, r)
		}
	}()
	f()
}

// Package gate makes callers of a model wait for their turn without falling
// silent.
//
// The engine gives up a model that says nothing for its idle timeout. So a call
// that waits, for a slot or for a rate, must give a sign of life every Pulse, and
// must stop waiting when its caller stops reading. Wait does that for any
// channel, Gate for a number of slots, first come, first served:
//
//	waited, err := g.Enter(ctx, gate.Pulse, alive)
//	if err != nil {
//		return err // the context's, or ErrStopped
//	}
//	defer g.Leave()
//
// models/limit and models/command call it, and httpmodel uses ErrStopped. It owns
// no goroutine: all waiting is done in the caller's.
package gate

package pebble

import (
	"context"

	"parley/conversation"
)

// noOwners is the part of a store of one process that knows of no other: sessions have no
// owners in it, so there is nothing to release.
type noOwners struct{}

// Release implements conversation.Store.
func (noOwners) Release(_ context.Context, _ conversation.SessionKey, _ conversation.Epoch, done func(error)) {
	if done != nil {
		done(nil)
	}
}

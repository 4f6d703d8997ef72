package erasure

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/living"
	"parley/persistence/pebble/internal/layout"
)

// Has is true for a session that has a tombstone.
func Has(from pebble.Reader, key conversation.SessionKey) (bool, error) {
	_, closer, err := from.Get(layout.KeyTombstone(nil, key))
	switch {
	case err == nil:
		return true, closer.Close()
	case errors.Is(err, pebble.ErrNotFound):
		return false, nil
	default:
		return false, err
	}
}

// Covers looks for a tombstone of the session or of one above it.
func Covers(from pebble.Reader, key conversation.SessionKey) (bool, error) {
	for {
		if found, err := Has(from, key); found || err != nil {
			return found, err
		}
		parent, _, ok := key.Session.Parent()
		if !ok {
			return false, nil
		}
		key.Session = parent
	}
}

// InTurn is false for the next session of a name whose session is not erased, or
// whose erasure is forgotten already: then the name begins anew.
func InTurn(from pebble.Reader, key conversation.SessionKey) (bool, error) {
	before, later := living.Before(key.Session)
	if !later {
		return true, nil
	}
	return Has(from, conversation.SessionKey{Tenant: key.Tenant, Session: before})
}

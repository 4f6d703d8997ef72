package pebble

import (
	"context"
	"errors"
	"fmt"

	crdb "github.com/cockroachdb/errors"
	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

// damaged is true for errors that say of stored bytes that they are not what was
// written, and which therefore stay until a person has acted.
func damaged(err error) bool {
	for _, damage := range []error{wire.ErrCorrupt, layout.ErrHead, errGap, errSeq} {
		if errors.Is(err, damage) {
			return true
		}
	}
	return crdb.Is(err, pebble.ErrCorruption) // a mark, which the standard library does not see
}

// asDamage makes conversation.ErrDamaged of the errors of a read that are damage.
func asDamage(err error) error {
	if err == nil || errors.Is(err, conversation.ErrNotFound) || !damaged(err) { // for absent ones no look for marks, which allocates
		return err
	}
	return fmt.Errorf("%w: %w", conversation.ErrDamaged, err)
}

// unread is what a commit answers when something that it has to read before it
// writes could not be read: nothing was written.
func unread(err error) error {
	var duplicate *conversation.DuplicateError
	switch {
	case err == nil, errors.As(err, &duplicate), errors.Is(err, conversation.ErrTooNew), errors.Is(err, conversation.ErrClosed),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case damaged(err):
		return asDamage(err)
	}
	return fmt.Errorf("%w: %w", conversation.ErrUnread, err)
}

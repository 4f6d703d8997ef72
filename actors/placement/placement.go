package placement

import (
	"fmt"

	"parley/conversation"
)

// Map says which sessions belong to this node. The engine asks it in one place, before it
// starts a session's actor: what is in memory stays until it is handed over. Its methods
// must not block, and must not call the engine.
type Map interface {
	// Local is true for a root session that belongs here; else owner says whose it is, as
	// far as is known.
	Local(root conversation.SessionKey) (owner conversation.Member, local bool)
}

// ElsewhereError is the cause (errors.As) of a retryable refusal by a node whose session it
// is not: the command was not looked at, and may be told to the owner.
type ElsewhereError struct {
	At   conversation.Member // zero = it is not known whose it is
	Owns bool                // the store has said so, not only the map
}

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("the session lives on another node (%s)", e.At)
}

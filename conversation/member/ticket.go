package member

import (
	"context"
	"crypto/sha256"
	"time"

	"parley/conversation"
)

// Ticket lets its bearer in once, at any node. Of its text only the hash is kept.
type Ticket struct {
	Hash   [sha256.Size]byte
	Tenant conversation.TenantID
	User   conversation.UserID
	Who    []byte        // what is known of the user, as gateway/auth writes it
	Life   time.Duration // how long it waits to be used, from now on
}

// Tickets are those of all nodes that nobody has used yet. Its methods may be called from
// any goroutine; an error says that they cannot be reached now.
type Tickets interface {
	// PutTicket keeps a ticket; false = its user has most of them already (0 = no limit).
	PutTicket(ctx context.Context, t Ticket, most int) (bool, error)

	// TakeTicket uses a ticket up and gives its Who; nil = there is none, or not any more.
	// Of all who take one, one gets it.
	TakeTicket(ctx context.Context, hash [sha256.Size]byte) ([]byte, error)
}

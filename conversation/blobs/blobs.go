package blobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
)

// ChunkBytes is how much of a blob is stored, and read, as one value.
const ChunkBytes = 256 << 10

// ErrGone refuses a commit that names a blob which the session does not have. Nothing of it
// was written.
var ErrGone = fmt.Errorf("%w: a message names an attachment that is not there", conversation.ErrConflict)

// ErrNone says that a session has no such blob.
var ErrNone = errors.New("the session has no such attachment")

// Stored is a blob of a session.
type Stored struct {
	attached.File
	At    time.Time // of its upload, or when it was renewed last; in milliseconds
	Named bool      // a message names it: it stays
}

// Swept is what a Sweep took away.
type Swept struct {
	Blobs int
	Bytes int64
	More  bool // there may be more to take
}

// Store keeps blobs of root sessions. Its methods may be called from any goroutine. Errors
// are ErrNone, conversation.ErrNotFound (there is no such session), conversation.ErrFull,
// conversation.ErrQuota, conversation.ErrClosed, the context's, or something else.
type Store interface {
	// Put stores a blob of a session, on loan from the time at: all or nothing, durable when
	// it returns nil. f.Hash is that of body. If the session has it already, what is stored
	// is returned, added is false, and a loan is renewed.
	Put(ctx context.Context, key conversation.SessionKey, f attached.File, at time.Time, body []byte) (stored attached.File, added bool, err error)
	// Stat says what a session has.
	Stat(ctx context.Context, key conversation.SessionKey, hash attached.Hash) (Stored, error)
	// Renew begins the loan of a blob anew; of one that a message names it does nothing.
	Renew(ctx context.Context, key conversation.SessionKey, hash attached.Hash, at time.Time) error
	// Chunk reads the nth ChunkBytes of a blob, from 0; the last one may be shorter, and
	// behind it there is nothing: an empty chunk.
	Chunk(ctx context.Context, key conversation.SessionKey, hash attached.Hash, n int) ([]byte, error)
	// Holders lists at most limit sessions of a tenant that have a blob, in the order of
	// their ids, behind after.
	Holders(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, after conversation.SessionID, limit int) ([]conversation.SessionID, error)
	// Holding says which of some sessions of a tenant have a blob, in their order. It costs by
	// the number of these sessions, whoever else has it.
	Holding(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, of []conversation.SessionID) ([]conversation.SessionID, error)
	// Sweep takes away at most limit blobs whose loan began before a time. Several may do it
	// at once.
	Sweep(ctx context.Context, before time.Time, limit int) (Swept, error)
}

// Chunks is how many chunks a blob of size bytes has.
func Chunks(size int64) int { return int((size + ChunkBytes - 1) / ChunkBytes) }

// ChunkOf is the nth chunk of a body.
func ChunkOf(body []byte, n int) []byte {
	if from := n * ChunkBytes; from < len(body) {
		return body[from:min(from+ChunkBytes, len(body))]
	}
	return nil
}

// Read reads a blob as a whole, and checks that it is what its hash says.
func Read(ctx context.Context, s Store, key conversation.SessionKey, f attached.File) ([]byte, error) {
	body := make([]byte, 0, f.Size)
	for n := range Chunks(f.Size) {
		c, err := s.Chunk(ctx, key, f.Hash, n)
		if err != nil {
			return nil, err
		}
		body = append(body, c...)
	}
	if attached.HashOf(body) != f.Hash {
		return nil, fmt.Errorf("%w: the attachment %s is not what its hash says", conversation.ErrDamaged, f.Hash)
	}
	return body, nil
}

// Named are the blobs that events name.
func Named(events []conversation.Event) (hashes []attached.Hash) {
	for i := range events {
		if b, ok := events[i].Body.(conversation.MessageAccepted); ok {
			for _, f := range b.Files {
				hashes = append(hashes, f.Hash)
			}
		}
	}
	return hashes
}

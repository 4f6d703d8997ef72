package blobrows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/persistence/pebble/internal/layout"
)

// loan is an entry of the list of loans.
type loan struct {
	at   time.Time
	key  conversation.SessionKey
	hash attached.Hash
}

// Sweep implements blobs.Store.
func (s *Blobs) Sweep(ctx context.Context, before time.Time, limit int) (swept blobs.Swept, err error) {
	if err := s.Enter(ctx); err != nil {
		return swept, err
	}
	defer s.Leave()
	if err := s.Ready(); err != nil {
		return swept, err
	}
	var due []loan
	err = scan(s.Store, []byte{layout.TableLoans}, layout.KeyLoan(nil, before, conversation.SessionKey{}, ""), func(k []byte) (bool, error) {
		at, key, hash, ok := layout.CutLoan(k)
		if !ok {
			return false, fmt.Errorf("%w: key %x of the loans of attachments cannot be read", conversation.ErrDamaged, k)
		}
		if len(due) == limit {
			swept.More = true
			return false, nil
		}
		due = append(due, loan{at, key, hash})
		return true, nil
	})
	if err != nil {
		return swept, err
	}
	for _, l := range due {
		if err := ctx.Err(); err != nil {
			return swept, err
		}
		size, err := s.end(l)
		if err != nil {
			return swept, err
		}
		if size >= 0 {
			swept.Blobs++
			swept.Bytes += size
		}
	}
	return swept, nil
}

// end ends one loan; size is that of the blob that it took away, -1 = it took none.
func (s *Blobs) end(l loan) (size int64, err error) {
	defer s.Cache.Shut(l.key)()
	b := s.Store.NewBatch()
	_ = b.Delete(layout.KeyLoan(nil, l.at, l.key, l.hash), nil)
	is, err := stat(s.Store, l.key, l.hash)
	if err != nil && !errors.Is(err, blobs.ErrNone) {
		return -1, errors.Join(err, b.Close())
	}
	size = -1
	if err == nil && !is.Named && !is.At.After(l.at) { // it was not renewed since
		size = is.Size
		Drop(b, l.key, is)
	}
	if err := s.apply(l.key, b); err != nil {
		return -1, err
	}
	if size > 0 {
		s.Usage.Add(l.key, -size, false)
	}
	return size, nil
}

// Drop takes a blob away.
func Drop(b *pebble.Batch, key conversation.SessionKey, is blobs.Stored) {
	for n := range blobs.Chunks(is.Size) {
		_ = b.Delete(layout.KeyBlobChunk(nil, key, is.Hash, n), nil)
	}
	_ = b.Delete(layout.KeyBlob(nil, key, is.Hash), nil)
	_ = b.Delete(layout.KeyHolder(nil, key, is.Hash), nil)
}

// Name has a commit's batch say that its events name blobs: of root sessions, for no others
// have any. blobs.ErrGone: one of them is not there.
func Name(b *pebble.Batch, from pebble.Reader, key conversation.SessionKey, events []conversation.Event) error {
	for _, hash := range blobs.Named(events) {
		v, closer, err := from.Get(layout.KeyBlob(nil, key, hash))
		if errors.Is(err, pebble.ErrNotFound) {
			return blobs.ErrGone
		}
		if err != nil {
			return err
		}
		is, err := layout.CutBlobValue(hash, v)
		if err := errors.Join(err, closer.Close()); err != nil {
			return err
		}
		_ = b.Set(layout.KeyBlobNamed(nil, key, hash), nil, nil)
		_ = b.Delete(layout.KeyLoan(nil, is.At, key, hash), nil)
	}
	return nil
}

package blobrows

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/usage"
	"parley/persistence/pebble/internal/writers"
)

// Needed is what Blobs works with.
type Needed struct {
	Store *pebble.DB
	Cache *writers.Cache
	Usage *usage.Tenants

	Enter func(context.Context) error // begins a call; Leave must follow if it returns nil
	Leave func()
	Ready func() error // why nothing can be written, or nil
	Room  func() error // conversation.ErrFull, or nil

	// View runs read on a snapshot, and returns when all that it saw is durable.
	View func(ctx context.Context, op string, read func(*pebble.Snapshot) error) error

	// Apply makes a batch durable. An error means that the outcome is unknown.
	Apply func(conversation.SessionKey, *pebble.Batch) error
}

// Blobs is a blobs.Store.
type Blobs struct {
	Needed
	seed maphash.Seed
	puts [64]sync.Mutex // one Put of the same bytes to the same session at a time, by their hash
}

var _ blobs.Store = (*Blobs)(nil)

// New makes the store of what is attached to messages.
func New(n Needed) *Blobs { return &Blobs{Needed: n, seed: maphash.MakeSeed()} }

// alone waits until no other Put may store the same: each would add it, and count it.
func (s *Blobs) alone(key conversation.SessionKey, hash attached.Hash) (done func()) {
	one := &s.puts[maphash.Comparable(s.seed, struct {
		key  conversation.SessionKey
		hash attached.Hash
	}{key, hash})%uint64(len(s.puts))]
	one.Lock()
	return one.Unlock
}

// get reads a value; nil = the key is not there.
func get(from pebble.Reader, k []byte) ([]byte, error) {
	v, closer, err := from.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{}, v...), closer.Close()
}

func stat(from pebble.Reader, key conversation.SessionKey, hash attached.Hash) (blobs.Stored, error) {
	v, err := get(from, layout.KeyBlob(nil, key, hash))
	if err != nil {
		return blobs.Stored{}, err
	}
	if v == nil {
		return blobs.Stored{}, blobs.ErrNone
	}
	s, err := layout.CutBlobValue(hash, v)
	if err != nil {
		return s, err
	}
	named, err := get(from, layout.KeyBlobNamed(nil, key, hash))
	s.Named = named != nil
	return s, err
}

// Put implements blobs.Store.
func (s *Blobs) Put(ctx context.Context, key conversation.SessionKey, f attached.File, at time.Time, body []byte) (attached.File, bool, error) {
	if err := s.Enter(ctx); err != nil {
		return attached.File{}, false, err
	}
	defer s.Leave()
	if err := cmp.Or(s.Ready(), s.Room()); err != nil {
		return attached.File{}, false, err
	}
	defer s.alone(key, f.Hash)()
	defer s.Cache.Keep([]conversation.SessionKey{key})()
	head, err := get(s.Store, layout.KeyHead(nil, key))
	if err != nil {
		return attached.File{}, false, err
	}
	if head == nil {
		return attached.File{}, false, conversation.ErrNotFound
	}
	b := s.Store.NewBatch()
	was, err := stat(s.Store, key, f.Hash)
	switch {
	case err == nil && was.Named:
		_ = b.Close()
		return was.File, false, s.View(ctx, "stat_blob", func(*pebble.Snapshot) error { return nil }) // until it is durable
	case err == nil:
		s.renew(b, key, was, at)
		return was.File, false, s.apply(key, b)
	case !errors.Is(err, blobs.ErrNone):
		return attached.File{}, false, errors.Join(err, b.Close())
	}
	f.Size = int64(len(body))
	if !s.Usage.Take(key.Tenant, f.Size) {
		return attached.File{}, false, errors.Join(conversation.ErrQuota, b.Close())
	}
	for n := range blobs.Chunks(f.Size) {
		_ = b.Set(layout.KeyBlobChunk(nil, key, f.Hash, n), blobs.ChunkOf(body, n), nil)
	}
	_ = b.Set(layout.KeyHolder(nil, key, f.Hash), layout.AppendU64(nil, uint64(f.Size)), nil)
	s.lend(b, key, f, at)
	if err := s.apply(key, b); err != nil {
		s.Usage.Add(key, -f.Size, false)
		return attached.File{}, false, err
	}
	return f, true, nil
}

// lend writes the description of a blob whose loan begins.
func (s *Blobs) lend(b *pebble.Batch, key conversation.SessionKey, f attached.File, at time.Time) {
	_ = b.Set(layout.KeyBlob(nil, key, f.Hash), layout.AppendBlob(nil, f, at), nil)
	_ = b.Set(layout.KeyLoan(nil, at, key, f.Hash), nil, nil)
}

// renew begins the loan of a blob anew.
func (s *Blobs) renew(b *pebble.Batch, key conversation.SessionKey, was blobs.Stored, at time.Time) {
	_ = b.Delete(layout.KeyLoan(nil, was.At, key, was.Hash), nil)
	s.lend(b, key, was.File, at)
}

func (s *Blobs) apply(key conversation.SessionKey, b *pebble.Batch) error {
	if err := s.Apply(key, b); err != nil {
		return fmt.Errorf("write an attachment: %w", err)
	}
	return nil
}

// Renew implements blobs.Store.
func (s *Blobs) Renew(ctx context.Context, key conversation.SessionKey, hash attached.Hash, at time.Time) error {
	if err := s.Enter(ctx); err != nil {
		return err
	}
	defer s.Leave()
	if err := cmp.Or(s.Ready(), s.Room()); err != nil {
		return err
	}
	defer s.Cache.Keep([]conversation.SessionKey{key})()
	was, err := stat(s.Store, key, hash)
	if err != nil || was.Named {
		return err
	}
	b := s.Store.NewBatch()
	s.renew(b, key, was, at)
	return s.apply(key, b)
}

// Stat implements blobs.Store.
func (s *Blobs) Stat(ctx context.Context, key conversation.SessionKey, hash attached.Hash) (is blobs.Stored, err error) {
	none := false // no damage, and no failure of the store
	err = s.View(ctx, "stat_blob", func(at *pebble.Snapshot) error {
		is, err = stat(at, key, hash)
		if none = errors.Is(err, blobs.ErrNone); none {
			return nil
		}
		return err
	})
	if err == nil && none {
		err = blobs.ErrNone
	}
	return is, err
}

// Chunk implements blobs.Store.
func (s *Blobs) Chunk(ctx context.Context, key conversation.SessionKey, hash attached.Hash, n int) (chunk []byte, err error) {
	none := false
	err = s.View(ctx, "read_blob", func(at *pebble.Snapshot) error {
		is, err := stat(at, key, hash)
		if none = errors.Is(err, blobs.ErrNone); none || err != nil && !none {
			if none {
				return nil
			}
			return err
		}
		if n < 0 || n >= blobs.Chunks(is.Size) {
			return nil
		}
		chunk, err = get(at, layout.KeyBlobChunk(nil, key, hash, n))
		if want := min(blobs.ChunkBytes, is.Size-int64(n)*blobs.ChunkBytes); err == nil && int64(len(chunk)) != want {
			err = fmt.Errorf("%w: chunk %d of attachment %s has %d bytes instead of %d", conversation.ErrDamaged, n, hash, len(chunk), want)
		}
		return err
	})
	if err == nil && none {
		err = blobs.ErrNone
	}
	return chunk, err
}

// Holders implements blobs.Store.
func (s *Blobs) Holders(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, after conversation.SessionID, limit int) (held []conversation.SessionID, err error) {
	err = s.View(ctx, "list_holders", func(at *pebble.Snapshot) error {
		prefix := layout.BlobPrefix(nil, tenant, hash)
		from := prefix
		if after != "" {
			from = layout.After(layout.KeyHolder(nil, conversation.SessionKey{Tenant: tenant, Session: after}, hash))
		}
		return scan(at, from, layout.After(prefix), func(k []byte) (bool, error) {
			if len(held) == limit {
				return false, nil
			}
			key, _, ok := layout.CutHolder(k)
			if !ok {
				return false, fmt.Errorf("%w: key %x of the list of attachments cannot be read", conversation.ErrDamaged, k)
			}
			held = append(held, key.Session)
			return true, nil
		})
	})
	return held, err
}

// Holding implements blobs.Store.
func (s *Blobs) Holding(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, of []conversation.SessionID) (held []conversation.SessionID, err error) {
	err = s.View(ctx, "list_holders", func(at *pebble.Snapshot) error {
		for _, id := range of {
			v, err := get(at, layout.KeyHolder(nil, conversation.SessionKey{Tenant: tenant, Session: id}, hash))
			if err != nil {
				return err
			}
			if v != nil {
				held = append(held, id)
			}
		}
		return nil
	})
	return held, err
}

// scan calls see for each key between two, until it says no.
func scan(from pebble.Reader, lower, upper []byte, see func(k []byte) (more bool, err error)) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		if more, err := see(it.Key()); err != nil || !more {
			return err
		}
	}
	return it.Error()
}

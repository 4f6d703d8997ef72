package blobstest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
)

// BlobMaps is a blobs.Store in maps. It starts no goroutine and holds nothing but a mutex while
// it works.
type BlobMaps struct {
	of   BlobHost
	held map[place]*blob
}

var _ blobs.Store = (*BlobMaps)(nil)

// BlobHost is what BlobMaps has to know of the sessions that blobs belong to.
type BlobHost struct {
	Mutex *sync.Mutex // that of the sessions, and of the maps

	// These are called with the mutex held.
	Ready  func(context.Context) error        // conversation.ErrClosed, or that the context has ended
	Exists func(conversation.SessionKey) bool // there is such a session
	Room   func() error                       // conversation.ErrFull
}

type place struct {
	key  conversation.SessionKey
	hash attached.Hash
}

type blob struct {
	blobs.Stored
	body []byte
}

// NewBlobMaps is an empty one.
func NewBlobMaps(of BlobHost) *BlobMaps { return &BlobMaps{of: of, held: map[place]*blob{}} }

// Erase takes along what belongs to a session that is erased. The mutex is held.
func (m *BlobMaps) Erase(key conversation.SessionKey) {
	for at := range m.held {
		if at.key == key {
			delete(m.held, at)
		}
	}
}

// Commit keeps what the events of a commit name, or is blobs.ErrGone and has changed
// nothing. The mutex is held.
func (m *BlobMaps) Commit(key conversation.SessionKey, events []conversation.Event) error {
	named := blobs.Named(events)
	for _, hash := range named {
		if m.held[place{key, hash}] == nil {
			return blobs.ErrGone
		}
	}
	for _, hash := range named {
		m.held[place{key, hash}].Named = true
	}
	return nil
}

func stamped(at time.Time) time.Time { return time.UnixMilli(at.UnixMilli()).UTC() }

// Put implements blobs.Store.
func (m *BlobMaps) Put(ctx context.Context, key conversation.SessionKey, f attached.File, at time.Time, body []byte) (attached.File, bool, error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return attached.File{}, false, err
	}
	if err := m.of.Room(); err != nil {
		return attached.File{}, false, err
	}
	if !m.of.Exists(key) {
		return attached.File{}, false, conversation.ErrNotFound
	}
	if b := m.held[place{key, f.Hash}]; b != nil {
		if !b.Named {
			b.At = stamped(at)
		}
		return b.File, false, nil
	}
	f.Size = int64(len(body))
	m.held[place{key, f.Hash}] = &blob{blobs.Stored{File: f, At: stamped(at)}, bytes.Clone(body)}
	return f, true, nil
}

// find is a blob; nil with the reason if there is none.
func (m *BlobMaps) find(ctx context.Context, key conversation.SessionKey, hash attached.Hash) (*blob, error) {
	if err := m.of.Ready(ctx); err != nil {
		return nil, err
	}
	if b := m.held[place{key, hash}]; b != nil {
		return b, nil
	}
	return nil, blobs.ErrNone
}

// Stat implements blobs.Store.
func (m *BlobMaps) Stat(ctx context.Context, key conversation.SessionKey, hash attached.Hash) (blobs.Stored, error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	b, err := m.find(ctx, key, hash)
	if err != nil {
		return blobs.Stored{}, err
	}
	return b.Stored, nil
}

// Renew implements blobs.Store.
func (m *BlobMaps) Renew(ctx context.Context, key conversation.SessionKey, hash attached.Hash, at time.Time) error {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	b, err := m.find(ctx, key, hash)
	if err == nil && !b.Named {
		b.At = stamped(at)
	}
	return err
}

// Chunk implements blobs.Store.
func (m *BlobMaps) Chunk(ctx context.Context, key conversation.SessionKey, hash attached.Hash, n int) ([]byte, error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	b, err := m.find(ctx, key, hash)
	if err != nil || n < 0 {
		return nil, err
	}
	return bytes.Clone(blobs.ChunkOf(b.body, n)), nil
}

// Holders implements blobs.Store.
func (m *BlobMaps) Holders(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, after conversation.SessionID, limit int) (held []conversation.SessionID, err error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return nil, err
	}
	for at := range m.held {
		if at.key.Tenant == tenant && at.hash == hash && at.key.Session > after {
			held = append(held, at.key.Session)
		}
	}
	slices.Sort(held)
	return held[:min(limit, len(held))], nil
}

// Holding implements blobs.Store.
func (m *BlobMaps) Holding(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, of []conversation.SessionID) (held []conversation.SessionID, err error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return nil, err
	}
	for _, id := range of {
		if m.held[place{conversation.SessionKey{Tenant: tenant, Session: id}, hash}] != nil {
			held = append(held, id)
		}
	}
	return held, nil
}

// Sweep implements blobs.Store.
func (m *BlobMaps) Sweep(ctx context.Context, before time.Time, limit int) (swept blobs.Swept, err error) {
	m.of.Mutex.Lock()
	defer m.of.Mutex.Unlock()
	if err := m.of.Ready(ctx); err != nil {
		return swept, err
	}
	for at, b := range m.held {
		if b.Named || !b.At.Before(stamped(before)) {
			continue
		}
		if swept.Blobs == limit {
			swept.More = true
			return swept, nil
		}
		delete(m.held, at)
		swept.Blobs++
		swept.Bytes += b.Size
	}
	return swept, nil
}

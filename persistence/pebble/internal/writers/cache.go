package writers

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/internal/seen"
	"parley/persistence/pebble/internal/layout"
)

// Known is the part of a session's head that its writer needs for the next
// commit. There is one for every session in use: what a commit brings itself, or only
// readers ask for, is not in it.
type Known struct {
	Epoch      conversation.Epoch // 0 = nothing is known here
	Last       conversation.Seq
	snapshotAt conversation.Seq
	wakeAt     int64 // milliseconds; only if wakes
	activity   int64 // as head's
	latest     int64
	claim      *conversation.Claimable
	stored     uint64

	wakes, listed bool
}

// Update makes it the head h, once h is durable.
func (c *Known) Update(h *layout.Head) {
	c.Epoch, c.Last, c.snapshotAt = h.Row.Epoch, h.Row.Last, h.Row.SnapshotAt
	c.activity, c.latest, c.listed, c.claim = h.Activity, h.Latest, h.Listed, h.Row.Claim
	c.stored = h.Row.Stored
	c.wakeAt, c.wakes = 0, !h.Row.WakeAt.IsZero()
	if c.wakes {
		c.wakeAt = h.Row.WakeAt.UnixMilli()
	}
}

// Stored is the stored head; it lacks the last commit's id and the summary.
func (c *Known) Stored() layout.Head {
	h := layout.Head{Activity: c.activity, Latest: c.latest, Listed: c.listed}
	h.Row.Epoch, h.Row.Last, h.Row.SnapshotAt, h.Row.Claim = c.Epoch, c.Last, c.snapshotAt, c.claim
	h.Row.Stored = c.stored
	if c.wakes {
		h.Row.WakeAt = time.UnixMilli(c.wakeAt).UTC()
	}
	return h
}

// A Slot is a session's lock and, while a writer is at work, the head as it
// was last stored.
type Slot struct {
	// tree, of a root session's slot, is held for reading by every writer of the
	// session and of its sub-sessions, and for writing by Delete, so that a
	// sub-session cannot be written while its tree goes away. Taken before Mu.
	Tree sync.RWMutex

	// Mu is held by a writer until its batch is durable, and by a reader of the
	// session while it opens its view: so no reader sees what is not on disk yet.
	Mu     sync.RWMutex
	Cached Known

	// Guarded by the shard, which nobody holds for long: MayHold waits for no commit.
	users int32
	keys  seen.Keys // what the session has stored
	asked uint8     // how often the disk was asked for a key, because nothing is known; up to readAfter
}

// Cache holds the entries in use, and a bounded number of unused ones for
// their heads: a session has a single writer, which need not read the head again.
type Cache struct {
	seed   maphash.Seed
	limit  int // unused heads kept in each shard
	shards [64]shard
}

type shard struct {
	mu sync.Mutex
	m  map[conversation.SessionKey]*Slot
}

// New makes a cache that keeps as many unused heads.
func New(heads int) *Cache {
	c := &Cache{seed: maphash.MakeSeed()}
	c.limit = max(1, heads/len(c.shards))
	for i := range c.shards {
		c.shards[i].m = map[conversation.SessionKey]*Slot{}
	}
	return c
}

func (c *Cache) shard(key conversation.SessionKey) *shard {
	return &c.shards[maphash.Comparable(c.seed, key)%uint64(len(c.shards))]
}

// Hash is a key's hash, the same for keys that are the same to a store.
func (c *Cache) Hash(k conversation.Key) uint64 {
	if k.Source != "" {
		return maphash.Comparable(c.seed, conversation.Key{Source: k.Source, Part: k.Part})
	}
	return maphash.Comparable(c.seed, conversation.Key{Author: k.Author, Client: k.Client})
}

// Use returns the session's slot; Release must follow.
func (c *Cache) Use(key conversation.SessionKey) *Slot {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry := shard.m[key]
	if entry == nil {
		entry = &Slot{}
		shard.m[key] = entry
	}
	entry.users++
	return entry
}

// MayHold is false if the session has certainly not stored the key of a hash. Without
// an entry nothing is known.
func (c *Cache) MayHold(key conversation.SessionKey, hash uint64) bool {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry := shard.m[key]
	return entry == nil || entry.keys.MayContain(hash)
}

// AddKeys notes the keys that a session has stored now.
func (c *Cache) AddKeys(key conversation.SessionKey, entry *Slot, hashes []uint64) {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	was := entry.keys.Complete
	if entry.keys.Add(hashes); was && !entry.keys.Complete {
		entry.asked = readAfter // too many: to read them would be for nothing
	}
}

// SetKeys says anew what is known of a session's keys.
func (c *Cache) SetKeys(key conversation.SessionKey, entry *Slot, keys seen.Keys) {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry.keys, entry.asked = keys, 0
}

// readAfter is the look-up on the disk that has all keys of a session read: not the
// first, or a session that is used once in a while would cost all of them each time.
const readAfter = 2

// ReadKeys reads the keys of a session that this process has not made, when they have
// been asked for before, so that new ones need not be looked for on the disk. Called
// with the session's lock held. If they cannot be read, nothing is known as before.
func (c *Cache) ReadKeys(from pebble.Reader, key conversation.SessionKey, entry *Slot) {
	if !c.wanted(key, entry) {
		return
	}
	keys := seen.Keys{Complete: true}
	if err := c.scan(from, key, &keys); err != nil || !keys.Complete {
		return
	}
	c.SetKeys(key, entry, keys)
}

func (c *Cache) wanted(key conversation.SessionKey, entry *Slot) bool {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if entry.keys.Complete || entry.asked == readAfter {
		return false
	}
	entry.asked++
	return entry.asked == readAfter
}

// scan adds the stored keys to a set, until it is given up.
func (c *Cache) scan(from pebble.Reader, key conversation.SessionKey, keys *seen.Keys) (err error) {
	prefix := layout.SessionPrefix(nil, key)
	lower, upper := append(slices.Clone(prefix), layout.KindPart), append(slices.Clone(prefix), layout.KindClient+1)
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok && keys.Complete; ok = it.Next() {
		k, fits := layout.CutUnique(it.Key()[len(prefix):])
		if !fits {
			return fmt.Errorf("key %x is not one of a part or a message", it.Key())
		}
		keys.Add([]uint64{c.Hash(k)})
	}
	return it.Error()
}

// Release gives an entry back; its locks must be free.
func (c *Cache) Release(key conversation.SessionKey, entry *Slot) {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if entry.users--; entry.users > 0 {
		return
	}
	if entry.Cached.Epoch == 0 {
		delete(shard.m, key)
		return
	}
	if len(shard.m) <= c.limit {
		return
	}
	for k, other := range shard.m { // any unused one: the loser costs one read
		if other.users == 0 && other != entry {
			delete(shard.m, k)
			return
		}
	}
}

// Count is the number of entries.
func (c *Cache) Count() int64 {
	var n int64
	for i := range c.shards {
		c.shards[i].mu.Lock()
		n += int64(len(c.shards[i].m))
		c.shards[i].mu.Unlock()
	}
	return n
}

// Held are the locks of a session's writer, from Lock or TryLock to Unlock, which another
// goroutine may call.
type Held struct {
	Key  conversation.SessionKey
	Own  *Slot
	root conversation.SessionKey
	tree *Slot
	c    *Cache
}

// Lock waits for the locks.
func (c *Cache) Lock(key conversation.SessionKey) Held {
	w := c.writer(key)
	w.tree.Tree.RLock()
	w.Own.Mu.Lock()
	return w
}

// TryLock is Lock for a caller that must not wait.
func (c *Cache) TryLock(key conversation.SessionKey) (w Held, ok bool) {
	w = c.writer(key)
	if !w.tree.Tree.TryRLock() {
		w.release()
		return w, false
	}
	if !w.Own.Mu.TryLock() {
		w.tree.Tree.RUnlock()
		w.release()
		return w, false
	}
	return w, true
}

// Unlock gives the locks back.
func (w Held) Unlock() {
	w.Own.Mu.Unlock()
	w.tree.Tree.RUnlock()
	w.release()
}

func (c *Cache) writer(key conversation.SessionKey) Held {
	w := Held{c: c, Key: key, root: Root(key)}
	w.Own = c.Use(key)
	w.tree = w.Own
	if w.root != key {
		w.tree = c.Use(w.root)
	}
	return w
}

func (w Held) release() {
	w.c.Release(w.Key, w.Own)
	if w.tree != w.Own {
		w.c.Release(w.root, w.tree)
	}
}

// Keep keeps root sessions from being erased until release is called.
func (c *Cache) Keep(sessions []conversation.SessionKey) (release func()) {
	var held []func()
	for _, key := range sessions {
		slot := c.Use(key)
		slot.Tree.RLock()
		held = append(held, func() { slot.Tree.RUnlock(); c.Release(key, slot) })
	}
	return func() {
		for _, release := range slices.Backward(held) {
			release()
		}
	}
}

// Root is the key of the root session of a session's tree.
func Root(key conversation.SessionKey) conversation.SessionKey {
	return conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()}
}

// Shut keeps everybody from writing to a root session, and to what is below it, until open
// is called.
func (c *Cache) Shut(root conversation.SessionKey) (open func()) {
	slot := c.Use(root)
	slot.Tree.Lock()
	return func() { slot.Tree.Unlock(); c.Release(root, slot) }
}

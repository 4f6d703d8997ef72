package pebble

import (
	"hash/maphash"
	"sync"
	"time"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/seen"
)

// A cachedHead is the part of a session's head that its writer needs for the next
// commit, with the keys that the session has stored. There is one for every
// session in use: what a commit brings itself, or only readers ask for, is not in it.
type cachedHead struct {
	epoch      conversation.Epoch // 0 = nothing is known here
	last       conversation.Seq
	snapshotAt conversation.Seq
	wakeAt     int64 // milliseconds; only if wakes
	activity   int64 // as head's
	latest     int64
	claim      *conversation.Claimable
	keys       seen.Keys

	wakes, listed bool
}

// update makes it the head h, once h is durable; the keys stay.
func (c *cachedHead) update(h *layout.Head) {
	c.epoch, c.last, c.snapshotAt = h.Row.Epoch, h.Row.Last, h.Row.SnapshotAt
	c.activity, c.latest, c.listed, c.claim = h.Activity, h.Latest, h.Listed, h.Row.Claim
	c.wakeAt, c.wakes = 0, !h.Row.WakeAt.IsZero()
	if c.wakes {
		c.wakeAt = h.Row.WakeAt.UnixMilli()
	}
}

// head is the stored head; it lacks the last commit's id and the summary.
func (c *cachedHead) head() layout.Head {
	h := layout.Head{Activity: c.activity, Latest: c.latest, Listed: c.listed}
	h.Row.Epoch, h.Row.Last, h.Row.SnapshotAt, h.Row.Claim = c.epoch, c.last, c.snapshotAt, c.claim
	if c.wakes {
		h.Row.WakeAt = time.UnixMilli(c.wakeAt).UTC()
	}
	return h
}

// A cacheEntry is a session's lock and, while a writer is at work, the head as it
// was last stored.
type cacheEntry struct {
	// tree, of a root session's slot, is held for reading by every writer of the
	// session and of its sub-sessions, and for writing by Delete, so that a
	// sub-session cannot be written while its tree goes away. Taken before mu.
	tree sync.RWMutex

	// mu is held by a writer until its batch is durable, and by a reader of the
	// session while it opens its view: so no reader sees what is not on disk yet.
	mu     sync.RWMutex
	cached cachedHead

	users int32 // guarded by the shard
}

// writerCache holds the entries in use, and a bounded number of unused ones for
// their heads: a session has a single writer, which need not read the head again.
type writerCache struct {
	seed   maphash.Seed
	limit  int // unused heads kept in each shard
	shards [64]cacheShard
}

type cacheShard struct {
	mu sync.Mutex
	m  map[conversation.SessionKey]*cacheEntry
}

func newWriterCache(heads int) *writerCache {
	c := &writerCache{seed: maphash.MakeSeed()}
	c.limit = max(1, heads/len(c.shards))
	for i := range c.shards {
		c.shards[i].m = map[conversation.SessionKey]*cacheEntry{}
	}
	return c
}

func (c *writerCache) shard(key conversation.SessionKey) *cacheShard {
	return &c.shards[maphash.Comparable(c.seed, key)%uint64(len(c.shards))]
}

// hash is a key's hash, the same for keys that are the same to a store.
func (c *writerCache) hash(k conversation.Key) uint64 {
	if k.Source != "" {
		return maphash.Comparable(c.seed, conversation.Key{Source: k.Source, Part: k.Part})
	}
	return maphash.Comparable(c.seed, conversation.Key{Author: k.Author, Client: k.Client})
}

// acquire returns the session's entry; release must follow.
func (c *writerCache) acquire(key conversation.SessionKey) *cacheEntry {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	entry := shard.m[key]
	if entry == nil {
		entry = &cacheEntry{}
		shard.m[key] = entry
	}
	entry.users++
	return entry
}

// release gives an entry back; its locks must be free.
func (c *writerCache) release(key conversation.SessionKey, entry *cacheEntry) {
	shard := c.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if entry.users--; entry.users > 0 {
		return
	}
	if entry.cached.epoch == 0 {
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

// count is the number of entries.
func (c *writerCache) count() int64 {
	var n int64
	for i := range c.shards {
		c.shards[i].mu.Lock()
		n += int64(len(c.shards[i].m))
		c.shards[i].mu.Unlock()
	}
	return n
}

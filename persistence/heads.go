package persistence

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"parley/conversation"
	"parley/conversation/wire"
)

// head is what the writer of a session has to know to write the next commit.
type head struct {
	row      wire.HeadRow
	activity int64  // milliseconds: where table 03 has the session; only if listed
	listed   bool   // it is in table 03
	summary  []byte // encoded; nil = never committed

	// keys is not nil while this process has made the session and keys has seen
	// all part and client keys that it has: a key that it has not seen cannot be
	// stored, and need not be looked for. A third of the CPU time of a commit went
	// into looking for keys that are new.
	keys *seenKeys
}

// seenKeys remembers hashes of keys in 1 KiB a session: the hashes themselves
// as long as they fit, then a Bloom filter of that size with four bits a key.
// What it has not seen is certainly new; at maxSeen keys three of ten new ones
// look as if it had seen them, and it is dropped.
type seenKeys struct {
	n     int
	few   []uint64
	bloom *[128]uint64
}

const (
	maxFew  = 128
	maxSeen = 3000
)

// bits are the four places of a hash in the filter's 8,192 bits.
func bits(hash uint64) [4]uint64 {
	return [4]uint64{hash & 8191, hash >> 13 & 8191, hash >> 26 & 8191, hash >> 39 & 8191}
}

// may is false for a key that was never added.
func (k *seenKeys) may(hash uint64) bool {
	if k.bloom == nil {
		return slices.Contains(k.few, hash)
	}
	for _, bit := range bits(hash) {
		if k.bloom[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

func (k *seenKeys) add(hash uint64) {
	k.n++
	if k.bloom == nil && len(k.few) < maxFew {
		k.few = append(k.few, hash)
		return
	}
	if k.bloom == nil {
		k.bloom = new([128]uint64)
		for _, old := range k.few {
			k.mark(old)
		}
		k.few = nil
	}
	k.mark(hash)
}

func (k *seenKeys) mark(hash uint64) {
	for _, bit := range bits(hash) {
		k.bloom[bit/64] |= 1 << (bit % 64)
	}
}

// know adds the hashes of keys that were stored.
func (h *head) know(hashes []uint64) {
	if h.keys == nil {
		return
	}
	if h.keys.n+len(hashes) > maxSeen {
		h.keys = nil
		return
	}
	for _, hash := range hashes {
		h.keys.add(hash)
	}
}

// headFormat is the first byte of a head's value.
const headFormat = 0x01

var errHead = errors.New("the head of the session cannot be read")

// appendHead encodes h: format, listed activity (empty or 8 bytes), head row,
// summary; each but the first with its length in front.
func appendHead(b []byte, h *head, row []byte) []byte {
	b = append(b, headFormat)
	if h.listed {
		b = append(b, 8)
		b = appendU64(b, ordered(h.activity))
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(len(row)))
	b = append(b, row...)
	return append(b, h.summary...)
}

// decodeHead reads a head's value; it keeps nothing of b.
func decodeHead(b []byte) (*head, error) {
	if len(b) < 2 {
		return nil, errHead
	}
	if b[0] != headFormat {
		return nil, fmt.Errorf("head: %w: format %#02x", conversation.ErrTooNew, b[0])
	}
	h := &head{}
	switch {
	case b[1] == 0:
		b = b[2:]
	case b[1] == 8 && len(b) >= 10:
		h.listed, h.activity = true, unordered(binary.BigEndian.Uint64(b[2:]))
		b = b[10:]
	default:
		return nil, errHead
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, errHead
	}
	var err error
	if h.row, err = wire.DecodeHead(b[w : w+int(n)]); err != nil {
		return nil, err
	}
	if rest := b[w+int(n):]; len(rest) > 0 {
		h.summary = append([]byte(nil), rest...)
	}
	return h, nil
}

// slot is a session's lock and, while a writer is at work, its head.
type slot struct {
	// tree, of a root session's slot, is held for reading by every writer of the
	// session and of its sub-sessions, and for writing by Delete, so that a
	// sub-session cannot be written while its tree goes away. Taken before mu.
	tree sync.RWMutex

	// mu is held by a writer until its batch is durable, and by a reader of the
	// session while it opens its view: so nobody reads what is not on disk yet.
	mu   sync.RWMutex
	head *head // nil = not known here

	users int // guarded by the shard
}

// slots holds the slots in use, and a bounded number of unused ones for their
// heads: a writer that is the single owner need not read its head again.
type slots struct {
	seed   maphash.Seed
	limit  int // unused heads kept in each shard
	shards [64]slotShard
}

type slotShard struct {
	mu sync.Mutex
	m  map[conversation.SessionKey]*slot
}

func newSlots(heads int) *slots {
	s := &slots{seed: maphash.MakeSeed()}
	s.limit = max(1, heads/len(s.shards))
	for i := range s.shards {
		s.shards[i].m = map[conversation.SessionKey]*slot{}
	}
	return s
}

func (s *slots) shard(key conversation.SessionKey) *slotShard {
	return &s.shards[maphash.Comparable(s.seed, key)%uint64(len(s.shards))]
}

// hash is a key's hash, the same for keys that are the same to a store.
func (s *slots) hash(k conversation.Key) uint64 {
	if k.Source != "" {
		return maphash.Comparable(s.seed, conversation.Key{Source: k.Source, Part: k.Part})
	}
	return maphash.Comparable(s.seed, conversation.Key{Author: k.Author, Client: k.Client})
}

// use returns the session's slot; done must follow.
func (s *slots) use(key conversation.SessionKey) *slot {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sl := sh.m[key]
	if sl == nil {
		sl = &slot{}
		sh.m[key] = sl
	}
	sl.users++
	return sl
}

// done gives a slot back, with its locks released.
func (s *slots) done(key conversation.SessionKey, sl *slot) {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sl.users--; sl.users > 0 {
		return
	}
	if sl.head == nil {
		delete(sh.m, key)
		return
	}
	if len(sh.m) <= s.limit {
		return
	}
	for k, other := range sh.m { // any unused one: the loser costs one read
		if other.users == 0 && other != sl {
			delete(sh.m, k)
			return
		}
	}
}

// count is how many slots there are.
func (s *slots) count() int64 {
	var n int64
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += int64(len(s.shards[i].m))
		s.shards[i].mu.Unlock()
	}
	return n
}

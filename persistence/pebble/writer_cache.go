package pebble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/wire"
)

// head is where a session stands, as it is stored.
type head struct {
	row      wire.HeadRow
	activity int64  // milliseconds: where table 03 has the session; only if listed
	listed   bool   // it is in table 03
	summary  []byte // encoded; nil = never committed
}

// known is what the writer of a session needs of its head for the next commit,
// and which of the session's keys it has seen. There is one for every session in
// use: what a commit brings itself, or only a reader asks for, is not in it.
type known struct {
	epoch      conversation.Epoch // 0 = nothing is known here
	last       conversation.Seq
	snapshotAt conversation.Seq
	wakeAt     int64 // milliseconds; only if wakes
	activity   int64 // as head's

	// Hashes of the part and client keys that were stored, as two bytes each while
	// they are few, then as a Bloom filter with four bits a key: 1 KiB at most. With
	// complete, this process has made the session and all keys are among them, so
	// that one which it has not seen cannot be stored and need not be looked for: a
	// third of the CPU time of a commit went into looking for keys that are new. At
	// maxSeen keys four of ten new ones look as if they had been seen; from then on
	// they are looked for.
	seen     []uint16
	keys     uint16 // how many were seen
	complete bool

	wakes, listed bool
}

const (
	maxFew     = 256 // longer lists take longer to search than four bits
	maxSeen    = 3000
	filterSize = 512 // of 16 bits
)

// from is what is known once h is durable; the keys stay.
func (k *known) from(h *head) {
	k.epoch, k.last, k.snapshotAt = h.row.Epoch, h.row.Last, h.row.SnapshotAt
	k.activity, k.listed = h.activity, h.listed
	k.wakeAt, k.wakes = 0, !h.row.WakeAt.IsZero()
	if k.wakes {
		k.wakeAt = h.row.WakeAt.UnixMilli()
	}
}

// head lacks the last commit's id and the summary.
func (k *known) head() head {
	h := head{activity: k.activity, listed: k.listed}
	h.row.Epoch, h.row.Last, h.row.SnapshotAt = k.epoch, k.last, k.snapshotAt
	if k.wakes {
		h.row.WakeAt = time.UnixMilli(k.wakeAt).UTC()
	}
	return h
}

// short is what a hash is remembered by.
func short(hash uint64) uint16 { return uint16(hash >> 48) }

// bits are the four places of a short hash in the filter's 8,192 bits.
func bits(short uint16) [4]uint16 {
	mixed := (uint64(short) + 1) * 0x9e3779b97f4a7c15
	place := func(shift int) uint16 { return uint16(mixed >> shift & 8191) }
	return [4]uint16{place(51), place(38), place(25), place(12)}
}

// may is false for the hash of a key that was certainly never stored.
func (k *known) may(hash uint64) bool {
	if !k.complete {
		return true
	}
	if k.keys <= maxFew {
		return slices.Contains(k.seen, short(hash))
	}
	for _, bit := range bits(short(hash)) {
		if k.seen[bit/16]&(1<<(bit%16)) == 0 {
			return false
		}
	}
	return true
}

// add takes hashes of keys that were stored.
func (k *known) add(hashes []uint64) {
	if !k.complete {
		return
	}
	if int(k.keys)+len(hashes) > maxSeen {
		k.seen, k.complete = nil, false
		return
	}
	for _, hash := range hashes {
		if k.keys++; k.keys <= maxFew {
			if len(k.seen) == cap(k.seen) { // in small steps: append's would leave a third of it unused
				k.seen = append(slices.Grow([]uint16(nil), len(k.seen)+max(8, len(k.seen)/8)), k.seen...)
			}
			k.seen = append(k.seen, short(hash))
			continue
		}
		if k.keys == maxFew+1 {
			few := k.seen
			k.seen = make([]uint16, filterSize)
			for _, old := range few {
				k.mark(old)
			}
		}
		k.mark(short(hash))
	}
}

func (k *known) mark(short uint16) {
	for _, bit := range bits(short) {
		k.seen[bit/16] |= 1 << (bit % 16)
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

// slot is a session's lock and, while a writer is at work, what it knows of the head.
type slot struct {
	// tree, of a root session's slot, is held for reading by every writer of the
	// session and of its sub-sessions, and for writing by Delete, so that a
	// sub-session cannot be written while its tree goes away. Taken before mu.
	tree sync.RWMutex

	// mu is held by a writer until its batch is durable, and by a reader of the
	// session while it opens its view: so nobody reads what is not on disk yet.
	mu sync.RWMutex
	known

	users int32 // guarded by the shard
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
	if sl.epoch == 0 {
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

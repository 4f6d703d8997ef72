package held

import (
	"hash/maphash"
	"sync"
	"time"

	"parley/conversation"
	"parley/persistence/internal/seen"
)

// MaxKeys is how many keys of a session are worth reading: with more the set says nothing.
const MaxKeys = 3000

// Sessions are the sets of keys. The zero value works.
type Sessions struct {
	once sync.Once
	seed maphash.Seed
	mu   sync.RWMutex
	of   map[conversation.SessionKey]*entry
}

type entry struct {
	epoch conversation.Epoch
	keys  seen.Keys
	fresh time.Time // when it was acquired; zero = it was written to since
}

func (s *Sessions) hash(stored []byte) uint64 {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	return maphash.Bytes(s.seed, stored)
}

// Set says which keys, as they are stored, a session has that was acquired with an epoch;
// complete = false: there are more. An older epoch changes nothing.
func (s *Sessions) Set(key conversation.SessionKey, epoch conversation.Epoch, keys [][]byte, complete bool) {
	e := &entry{epoch: epoch, keys: seen.Keys{Complete: complete}, fresh: time.Now()}
	e.keys.Add(s.hashes(keys))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[conversation.SessionKey]*entry{}
	}
	if was := s.of[key]; was == nil || was.epoch < epoch {
		s.of[key] = e
	}
}

func (s *Sessions) hashes(keys [][]byte) []uint64 {
	all := make([]uint64, len(keys))
	for i, k := range keys {
		all[i] = s.hash(k)
	}
	return all
}

// Add notes keys that were stored with an epoch.
func (s *Sessions) Add(key conversation.SessionKey, epoch conversation.Epoch, keys [][]byte) {
	all := s.hashes(keys)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[key]; e != nil && e.epoch == epoch {
		e.fresh = time.Time{}
		e.keys.Add(all)
	}
}

// Fresh is for how much of a time a session is still to be left to the writer that has just
// acquired it, unless that one has written.
func (s *Sessions) Fresh(key conversation.SessionKey, of time.Duration) time.Duration {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if e := s.of[key]; e != nil && !e.fresh.IsZero() {
		return max(0, of-time.Since(e.fresh))
	}
	return 0
}

// Forget drops a session that is not written to with that epoch any more, or of which
// something may be stored that is not known.
func (s *Sessions) Forget(key conversation.SessionKey, epoch conversation.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.of[key]; e != nil && e.epoch <= epoch {
		delete(s.of, key)
	}
}

// MayHold is false for a key that the session certainly has not.
func (s *Sessions) MayHold(key conversation.SessionKey, stored []byte) bool {
	hash := s.hash(stored)
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.of[key]
	return e == nil || e.keys.MayContain(hash)
}

// Len is how many sessions are known.
func (s *Sessions) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.of)
}

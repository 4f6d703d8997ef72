package given

import (
	"sync"

	"parley/conversation/attached"
)

// seen is a set of files. It forgets all of them when it has too many: what is forgotten is
// found out again. It may be used by any number of goroutines.
type seen struct {
	mu    sync.Mutex
	files map[attached.Hash]bool
}

// mostSeen bounds the set: some megabytes.
const mostSeen = 1 << 14

func (s *seen) has(hash attached.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[hash]
}

func (s *seen) note(files []attached.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hash := range files {
		if s.files == nil || len(s.files) == mostSeen {
			s.files = map[attached.Hash]bool{}
		}
		s.files[hash] = true
	}
}

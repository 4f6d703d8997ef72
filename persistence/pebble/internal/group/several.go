package group

import (
	"hash/maphash"
	"runtime"

	"parley/conversation"
)

// Several committers share the sessions of a store among them, each session's writes
// always with the same one. Pebble puts their batches into one log, in an order.
//
// Nine tenths of a committer's time are inserts into the memory table, which many
// goroutines may do at once. With one committer they would end first on a machine of
// many cores (docs/SCALING.md).
type Several struct {
	committers []*Committer
	seed       maphash.Seed
}

// coresForOne is how many processors one committer serves: it works for a fifth of a
// turn's time. With more of them than needed, fewer commits share a sync.
const coresForOne = 4

// StartSeveral starts n committers, or as many as the processors that Go uses can keep
// busy if n is 0; Close must follow.
func StartSeveral(n int, with Setup) *Several {
	if n == 0 {
		n = max(1, runtime.GOMAXPROCS(0)/coresForOne)
	}
	s := &Several{committers: make([]*Committer, n), seed: maphash.MakeSeed()}
	for i := range s.committers {
		s.committers[i] = Start(with)
	}
	return s
}

// Submit takes a write. It does not block.
func (s *Several) Submit(w *Write) { s.of(w.Key).Submit(w) }

func (s *Several) of(key conversation.SessionKey) *Committer {
	if len(s.committers) == 1 {
		return s.committers[0]
	}
	return s.committers[maphash.Comparable(s.seed, key)%uint64(len(s.committers))]
}

// Close ends the goroutines of all. Nothing may be submitted any more, and all writes
// must have ended.
func (s *Several) Close() {
	for _, c := range s.committers {
		c.Close()
	}
}

package service

import "sync"

// Slots count what is open at the same time, under several limits at once: of the
// node, of a user, of an address.
type Slots struct {
	mu   sync.Mutex
	open map[Slot]int
}

// Slot is one place under a limit: that of everybody (Of is nil), or of one user, one
// address, one session. Name is the limit's name below [limits].
type Slot struct {
	Name string
	Of   any // comparable
}

// Most says how many of a slot there may be; 0 = no limit.
type Most struct {
	Slot
	Most int
}

// NewSlots makes a count of nothing.
func NewSlots() *Slots { return &Slots{open: make(map[Slot]int)} }

// Take takes a place under all limits, or under none: then refusedBy names the first
// limit that has no room. free gives the places back; it may be called again.
func (s *Slots) Take(limits ...Most) (free func(), refusedBy string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range limits {
		if OverLimit(s.open[l.Slot], l.Most) {
			return nil, l.Name
		}
	}
	for _, l := range limits {
		s.open[l.Slot]++
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range limits {
			if s.open[l.Slot]--; s.open[l.Slot] == 0 {
				delete(s.open, l.Slot)
			}
		}
	}), ""
}

package exchange

import (
	"context"
	"sync"

	"parley/conversation"
	"parley/gateway/door"
)

// turns are those who do several things in a session, one after the other. A session that nobody
// waits for takes no room.
type turns struct {
	mu sync.Mutex
	of map[conversation.SessionKey]*turn
}

// turn is the one that is taken in a session.
type turn struct {
	by    int           // who have it, and who wait for it
	taken chan struct{} // holds one while it is taken
}

// Turn waits until nobody else has the turn in a session on this node, for those who see what a
// session is set to, set it otherwise, and put it back: between these steps no other who asks for
// the turn does anything. end gives it back. The error is door.ErrNoAnswer when ctx ends before.
func (x *Exchange) Turn(ctx context.Context, key conversation.SessionKey) (end func(), err error) {
	s := &x.turns
	s.mu.Lock()
	if s.of == nil {
		s.of = map[conversation.SessionKey]*turn{}
	}
	t := s.of[key]
	if t == nil {
		t = &turn{taken: make(chan struct{}, 1)}
		s.of[key] = t
	}
	t.by++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.by--; t.by == 0 {
			delete(s.of, key)
		}
	}
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, door.ErrNoAnswer
	}
}

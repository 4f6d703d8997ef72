package fanout

import "parley/conversation"

// Upstream connects the hub of one node with those of others, where sessions live that are
// followed here. A node that is alone has none.
//
// Followed, Unfollowed and Typing must not block. Followed and Unfollowed are called in the order
// in which it happens, under a lock of the hub, which they must not call.
type Upstream interface {
	// Followed says that a session has got its first follower here. What its owner publishes
	// from the next View on comes to the hub, or makes it read the log.
	Followed(key conversation.SessionKey)
	// Unfollowed says that the last follower of a session has left.
	Unfollowed(key conversation.SessionKey)
	// View shows a followed session as its owner has it; see Source.
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	// Typing tells the other nodes that a user types here, or has stopped.
	Typing(key conversation.SessionKey, after conversation.Seq, user conversation.UserID, on bool)
}

// SetUpstream connects the hub with those of other nodes. It must be called before anything
// is followed.
func (h *Hub) SetUpstream(u Upstream) { h.upstream = u }

// Missed says that ephemeral things of a session were lost on their way from another node:
// followers who see drafts are shown the whole text again.
func (h *Hub) Missed(key conversation.SessionKey) {
	shard := h.shard(key)
	shard.mu.RLock()
	defer shard.mu.RUnlock()
	for _, s := range shard.topics[key].followers {
		s.missed()
	}
}

// missed has what streams shown anew, as soon as the subscription has begun.
func (s *Subscription) missed() {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	switch {
	case !s.drafts.wanted || s.phase == phaseEnded:
	case s.phase == phaseLive:
		s.fallBehind()
	default:
		s.drafts.missed = true
	}
}

// view asks for the state of the session where it lives.
func (s *Subscription) view(done func(conversation.View, error)) {
	if up := s.queue.hub.upstream; up != nil {
		up.View(s.key, s.as, done)
		return
	}
	s.queue.source.View(s.key, s.as, done)
}
